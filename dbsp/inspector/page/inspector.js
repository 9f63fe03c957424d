// The page: it follows the run, and connects the drawing, the panels and the buttons.

import { follow, get, post } from "./api.js";
import { CircuitView } from "./circuit-view.js";
import { EditPanel } from "./edit-panel.js";
import { counted, duration, memory } from "./elements.js";
import { OperatorTable } from "./operator-table.js";
import { StreamPanel } from "./stream-panel.js";

const part = (id) => document.getElementById(id);
const STAGES = { run: "as it runs", physical: "physical", incremental: "incremental", query: "query" };
const WIDE = matchMedia("(min-width: 760px)");

let circuit = null;
let state = null;
let shown = null; // the tick that the page shows; null for the latest
let stage = "run";
let busy = false;

const view = new CircuitView(part("circuit"), (number) => select(number));
const stream = new StreamPanel(part("stream"), report);
const edit = new EditPanel(part("edit"), (edits) => step({ kind: "edits", edits }));
const operators = new OperatorTable(part("operators"), (number) => {
  view.reveal(number);
  select(number);
});

// --- errors -------------------------------------------------------------------------------------

function report(message) {
  part("problem").hidden = message === "";
  part("problem").textContent = message;
}

// --- tabs ---------------------------------------------------------------------------------------

const TABS = ["circuit", "stream", "edit", "operators"];
let tab = WIDE.matches ? "stream" : "circuit";

function openTab(name) {
  tab = WIDE.matches && name === "circuit" ? "stream" : name;
  for (const each of TABS) {
    const button = part(`tab-${each}`);
    button.setAttribute("aria-selected", String(each === tab));
    button.tabIndex = each === tab ? 0 : -1;
    part(each).classList.toggle("open", each === tab);
  }
}

for (const name of TABS) part(`tab-${name}`).addEventListener("click", () => openTab(name));
part("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const usable = TABS.filter((name) => !(WIDE.matches && name === "circuit"));
  openTab(usable.at((usable.indexOf(tab) + step) % usable.length));
  part(`tab-${tab}`).focus();
});
WIDE.addEventListener("change", () => {
  openTab(tab);
  view.fit();
});

// --- the circuit and its numbers ------------------------------------------------------------------

async function loadCircuit() {
  circuit = await get("circuit", { stage });
  part("name").textContent = circuit.name;
  document.title = `${circuit.name} · dbsp inspector`;
  part("stage").replaceChildren(
    ...circuit.stages.map((name) => new Option(STAGES[name], name, name === stage, name === stage)),
  );
  edit.offer(circuit.inputs);
  await view.show(circuit);
}

async function loadState() {
  const known = state?.circuit;
  state = await get("state", { tick: shown });
  if (known !== undefined && known !== state.circuit && stage === "run") await loadCircuit();
  const numbers = stage === "run" ? state.nodes : {};
  view.update(numbers);
  const total = `${counted(state.stateRows, "row")} kept, ${memory(state.stateBytes)}`;
  operators.show(circuit.nodes, numbers, total);
  part("facts").textContent = total;
  showTicks();
  if (stream.node && stage === "run") await stream.show(stream.node, shown);
}

function showTicks() {
  const { ticks, script } = state;
  const at = ticks.indexOf(state.shown);
  part("tick").textContent = `tick ${state.shown}${state.seconds ? ` · ${duration(state.seconds)}` : ""}`;
  part("tick").classList.toggle("past", shown !== null);
  part("back").disabled = at <= 0;
  part("forward").disabled = at < 0 || at === ticks.length - 1;
  part("latest").disabled = shown === null;
  part("step-script").hidden = script.of === 0;
  part("step-script").disabled = busy || script.left === 0;
  part("step-script").textContent = `Step (${script.left} left)`;
  part("step-empty").disabled = busy;
}

function select(number) {
  const node = circuit.nodes.find((each) => each.number === number);
  view.mark(number);
  if (stage === "run") stream.show(node, shown).catch((error) => report(error.message));
  else stream.describe(node);
  openTab("stream");
}

// --- ticks ----------------------------------------------------------------------------------------

/** Step the run; return whether the tick was applied. */
async function step(body) {
  if (busy) return false;
  busy = true;
  try {
    const { absent, present } = await post("step", body);
    const notes = [
      ...Object.entries(absent).map(([name, count]) => `${counted(count, "retracted row")} of '${name}' was absent`),
      ...Object.entries(present).map(([name, count]) => `${counted(count, "inserted row")} of '${name}' was present already`),
    ];
    report(notes.join("; "));
    return true;
  } catch (error) {
    report(error.message);
    return false;
  } finally {
    busy = false;
    await refresh();
  }
}

let seen = -1;
let refreshing = Promise.resolve();

/** Show the latest numbers; the changes of a new tick flow along the edges. */
function refresh() {
  refreshing = refreshing.then(async () => {
    try {
      await loadState();
      const fresh = seen >= 0 && state.version !== seen && shown === null;
      seen = state.version;
      if (fresh) view.flow();
    } catch (error) {
      report(error.message);
    }
  });
  return refreshing;
}

function go(tick) {
  shown = tick === state.tick ? null : tick;
  refresh();
}

part("step-script").addEventListener("click", () => step({ kind: "script" }));
part("step-empty").addEventListener("click", () => step({ kind: "empty" }));
part("back").addEventListener("click", () => go(state.ticks[state.ticks.indexOf(state.shown) - 1]));
part("forward").addEventListener("click", () => go(state.ticks[state.ticks.indexOf(state.shown) + 1]));
part("latest").addEventListener("click", () => go(state.tick));
part("stage").addEventListener("change", async () => {
  stage = part("stage").value;
  stream.empty();
  try {
    await loadCircuit();
    await refresh();
  } catch (error) {
    report(error.message);
  }
});

openTab(tab);
try {
  const started = performance.now();
  await loadCircuit();
  await refresh();
  document.body.dataset.ready = String(Math.round(performance.now() - started));
} catch (error) {
  report(error.message);
}
follow(
  (version) => {
    if (version !== seen) refresh();
  },
  (connected) => document.body.classList.toggle("disconnected", !connected),
);
