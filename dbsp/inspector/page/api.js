// Requests to the server. An error of the server is thrown as an error in words.

export class ServerError extends Error {}

async function answered(request) {
  let response;
  try {
    response = await request;
  } catch {
    throw new ServerError("The inspector does not answer: its server has ended, or it is busy.");
  }
  const answer = await response.json().catch(() => null);
  if (answer === null) throw new ServerError(`The inspector answered with status ${response.status}.`);
  if (answer.error !== undefined) throw new ServerError(answer.error);
  return answer;
}

/** Ask for something; `query` has the parameters that are not null. */
export function get(name, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  return answered(fetch(`api/${name}?${new URLSearchParams(given)}`));
}

/** Send an object, for a change. */
export function post(name, body) {
  return answered(
    fetch(`api/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

/** Call `changed` after every change of the run, and `connected` with whether the server answers. */
export function follow(changed, connected) {
  const events = new EventSource("api/events");
  events.addEventListener("open", () => connected(true));
  events.addEventListener("error", () => connected(false));
  events.addEventListener("message", (event) => changed(Number(event.data)));
}
