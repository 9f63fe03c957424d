// Elements of the page, and numbers as people read them.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element. Properties with a dash are attributes; a function is an event handler. */
export function element(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

/** Return an element of a drawing; all properties but event handlers are attributes. */
export function shape(name, properties = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function filled(made, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (typeof value === "function") made.addEventListener(key, value);
    else if (key.includes("-") || key === "role" || key === "for" || key === "scope") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const WHOLE = new Intl.NumberFormat("en");

/** Return a number with separators: 12,345. */
export function whole(number) {
  return WHOLE.format(number);
}

/** Return a number in five characters at most: 12.3k. */
export function short(number) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (number >= size) {
      const amount = number / (unit === "k" ? 1e3 : size);
      return `${amount.toFixed(amount < 100 ? 1 : 0)}${unit}`;
    }
  }
  return String(number);
}

/** Return a number with its noun: 1 row, 2 rows. */
export function counted(number, noun) {
  return `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return seconds as text: 1.20 s, 3.4 ms, 12 µs. */
export function duration(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toFixed(1)} ms`;
  return `${Math.round(seconds * 1e6)} µs`;
}

/** Return an amount of memory: 1.2 MB. */
export function memory(bytes) {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${bytes} B`;
}

const pen = document.createElement("canvas").getContext("2d");

/** Return the width in pixels of a text of this size in the font of the page. */
export function widthOf(text, size, weight = 400) {
  pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** Return a text cut to a width in pixels. */
export function cut(text, width, size, weight = 400) {
  if (widthOf(text, size, weight) <= width) return text;
  const characters = [...text];
  while (characters.length && widthOf(`${characters.join("")}…`, size, weight) > width) characters.pop();
  return `${characters.join("")}…`;
}
