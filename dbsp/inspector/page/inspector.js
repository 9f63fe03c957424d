// The page: it follows the run, and connects the drawing, the panels and the buttons.

import { follow, get, post } from "./api.js";
import { CircuitView } from "./circuit-view.js";
import { EditPanel } from "./edit-panel.js";
import { counted, duration, memory } from "./elements.js";
import { LessonPanel } from "./lesson-panel.js";
import { OperatorTable } from "./operator-table.js";
import { StreamPanel } from "./stream-panel.js";

const part = (id) => document.getElementById(id);
const STAGES = { run: "as it runs", physical: "physical", incremental: "incremental", query: "query" };
const WIDE = matchMedia("(min-width: 760px)");

let circuit = null;
let state = null;
let shown = null; // the tick that the page shows; null for the latest
let stage = "run";

const view = new CircuitView(part("circuit"), (id) => select(id));
const stream = new StreamPanel(part("stream"), report);
const edit = new EditPanel(part("edit"), (edits) => step({ kind: "edits", edits }));
const lesson = new LessonPanel(part("lesson"), () => step({ kind: "script" }));
const operators = new OperatorTable(part("operators"), (id) => {
  view.reveal(id);
  select(id);
});

// --- errors -------------------------------------------------------------------------------------

function report(message) {
  part("problem").hidden = message === "";
  part("problem-text").textContent = message;
}

part("problem-close").addEventListener("click", () => report(""));

// --- tabs ---------------------------------------------------------------------------------------

const TABS = ["circuit", "lesson", "stream", "edit", "operators"];
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
  const usable = TABS.filter((name) => !(WIDE.matches && name === "circuit") && !part(`tab-${name}`).hidden);
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
  stream.proofs = circuit.proofs;
  await view.show(circuit);
}

async function loadState() {
  const known = state?.circuit;
  state = await get("state", { tick: shown });
  if (known !== undefined && known !== state.circuit && stage === "run") {
    choose(null);
    await loadCircuit();
  }
  part("note").hidden = state.note === "";
  part("note").textContent = state.note;
  showTicks();
  showLesson();
  await showScope();
  showNumbers();
  await showStream();
}

function showLesson() {
  if (!state.lesson) return;
  lesson.show(state.lesson, state.script.left);
  if (part("tab-lesson").hidden) {
    part("tab-lesson").hidden = false;
    openTab("lesson");
  }
}

function showNumbers() {
  const total = `${counted(state.stateRows, "row")} kept, ${memory(state.stateBytes)}`;
  const files = state.fileBytes ? `, ${memory(state.fileBytes)} in files` : "";
  part("facts").textContent = total + files;
  const numbers = stage === "run" ? { ...state.nodes } : {};
  if (iteration !== null) {
    const emitted = iterations[iteration].nodes;
    for (const node of circuit.nodes.filter((each) => each.frame === scope)) {
      numbers[node.id] = { rows: emitted[node.id]?.rows ?? 0, stored: state.nodes[node.id]?.stored };
    }
  }
  view.update(numbers);
  operators.show(circuit.nodes.filter(({ path }) => path !== ""), stage === "run" ? state.nodes : {}, total + files);
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
  part("step-script").disabled = script.left === 0;
  part("step-script").textContent = `Step (${script.left} left)`;
}

// --- the selected box -----------------------------------------------------------------------------

let selected = null;
let scope = null; // the scope whose iterations are shown
let iterations = [];
let iteration = null; // its place in `iterations`; null for the whole tick

function boxOf(id) {
  return circuit.nodes.find((each) => each.id === id);
}

function choose(id) {
  selected = id;
  const box = id === null ? null : boxOf(id);
  const around = box === null ? null : box.encloses ? box : boxOf(box.frame);
  const chosen = around?.kind === "scope" && stage === "run" ? around.id : null;
  if (chosen !== scope) [scope, iteration] = [chosen, null];
}

async function select(id) {
  choose(id);
  view.mark(id);
  openTab("stream");
  try {
    await showScope();
    showNumbers();
    await showStream();
  } catch (error) {
    report(error.message);
  }
}

async function showScope() {
  iterations = [];
  if (scope !== null) {
    // A tick with too many rows has no iterations, and the note on the tick says so.
    iterations = await get("iterations", { node: scope, tick: shown }).then((answer) => answer.iterations, () => []);
  }
  if (iteration !== null && iteration >= iterations.length) iteration = null;
  part("iterations").hidden = scope === null;
  const all = `${boxOf(scope)?.title ?? ""}: ${counted(iterations.length, "iteration")}`;
  part("iteration").textContent = iteration === null ? all : `iteration ${iteration} of ${iterations.length - 1}`;
  part("iteration-back").disabled = !iteration;
  part("iteration-forward").disabled = iterations.length === 0 || iteration === iterations.length - 1;
  part("iteration-all").disabled = iteration === null;
}

async function showStream() {
  const box = selected === null ? null : boxOf(selected);
  if (!box) stream.empty();
  else if (stage !== "run") stream.describe(box, "This circuit does not run. Choose the circuit as it runs to see rows.");
  else if (box.encloses) stream.showScope(box, iterations, iteration, iterate);
  else await stream.show(box, shown, iteration);
}

async function iterate(number) {
  iteration = number;
  try {
    await showScope();
    showNumbers();
    view.flow((id) => iteration === null || boxOf(id).frame === scope);
    await showStream();
  } catch (error) {
    report(error.message);
  }
}

part("iteration-back").addEventListener("click", () => iterate(iteration - 1));
part("iteration-forward").addEventListener("click", () => iterate(iteration === null ? 0 : iteration + 1));
part("iteration-all").addEventListener("click", () => iterate(null));

// --- ticks ----------------------------------------------------------------------------------------

let stepping = Promise.resolve();

/** Step the run after the steps before it; return whether the tick was applied. */
function step(body) {
  stepping = stepping.then(() => stepOnce(body));
  return stepping;
}

async function stepOnce(body) {
  // A second click can come before the page shows that the first one used the last tick.
  if (body.kind === "script" && state.script.left === 0) return false;
  try {
    const { tick, absent, present } = await post("step", body);
    const notes = [
      ...Object.entries(absent).map(([name, count]) => `${counted(count, "retracted row")} of '${name}' was absent`),
      ...Object.entries(present).map(([name, count]) => `${counted(count, "inserted row")} of '${name}' was present already`),
    ];
    report(notes.join("; "));
    await refresh(() => state.tick >= tick);
    return true;
  } catch (error) {
    report(error.message);
    await refresh();
    return false;
  }
}

let seen = -1;
let refreshing = Promise.resolve();

/**
 * Show the latest numbers unless the page has them (`known`); the changes of a new tick flow along
 * the edges. The answer to a step and the event of its tick come in any order: if both replaced the
 * buttons, a click between them would be lost.
 */
function refresh(known = () => false) {
  refreshing = refreshing.then(async () => {
    try {
      if (known()) return;
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
  choose(null);
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
  (version) => refresh(() => version <= seen),
  (connected) => document.body.classList.toggle("disconnected", !connected),
);
