// The drawing of the circuit: boxes, streams, the numbers of a tick, and the flow of its changes.

import { cut, duration, element, shape, short, counted, widthOf } from "./elements.js";

// The sizes of the texts in inspector.css, the room beside them, and the widest title of a scope.
const LABEL = [12.5, 600];
const DETAIL = [11.5];
const MARGIN = 18;
const HANDLE = 26;
const TITLE = 300;
const STAGGER = 900;
const READABLE = 0.55;

// The colours: by the kind of a box, or by the name of its operator.
const KINDS = {
  input: "input", constant: "input", output: "output", trace: "state", integral: "state",
  delay: "time", entering: "time", leaving: "time",
};
const OPERATORS = [
  [/join/i, "join"],
  [/Distinct|Integrate|AssertNonnegative/, "state"],
  [/Aggregate|Top|Rank|Choice|Group|Classes/, "group"],
  [/Differentiate|Watermark|Delay/, "time"],
];

function kindOf({ kind, operator }) {
  return KINDS[kind] ?? OPERATORS.find(([pattern]) => pattern.test(operator))?.[1] ?? "linear";
}

/** The drawing in a section of the page. `select` is called with the id of a box. */
export class CircuitView {
  constructor(section, select) {
    this.select = select;
    this.collapsed = new Set();
    this.circuit = null;
    this.numbers = {};
    this.groups = new Map();
    this.current = null;
    this.scale = 1;
    this.left = 0;
    this.top = 0;
    this.request = 0;
    this.worker = new Worker(new URL("layout-worker.js", import.meta.url), { type: "module" });
    this.worker.addEventListener("message", ({ data }) => this.receive(data));
    this.worker.addEventListener("error", () => this.say("The circuit cannot be laid out."));
    this.drawing = shape("g");
    this.canvas = shape(
      "svg",
      { role: "group", "aria-label": "Circuit; arrow keys move between operators", class: "canvas" },
      shape(
        "defs",
        {},
        arrow("arrow"),
        arrow("arrow-active"),
      ),
      this.drawing,
    );
    this.message = element("p", { className: "waiting", role: "status" }, "Laying out the circuit…");
    section.append(
      this.canvas,
      this.message,
      element(
        "div",
        { className: "zoom", role: "group", "aria-label": "Zoom" },
        element("button", { type: "button", "aria-label": "Zoom in", click: () => this.zoom(1.25) }, "+"),
        element("button", { type: "button", "aria-label": "Zoom out", click: () => this.zoom(0.8) }, "−"),
        element("button", { type: "button", "aria-label": "Show the whole circuit", click: () => this.fit() }, "⤢"),
      ),
    );
    this.handlePointers();
    // On a narrow page the drawing may be hidden while it is made, and it has no size then.
    new ResizeObserver(() => {
      if (!this.unseen || this.hidden) return;
      this.unseen = false;
      if (this.anchor) this.center(this.anchor, Math.max(this.scale, READABLE));
      else this.start();
    }).observe(this.canvas);
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  say(text) {
    this.message.textContent = text;
    this.message.hidden = text === "";
  }

  /** Show another circuit; resolves when it is drawn. */
  show(circuit) {
    this.circuit = circuit;
    this.nodes = new Map(circuit.nodes.map((node) => [node.id, node]));
    this.collapsed = new Set([...this.collapsed].filter((id) => this.nodes.get(id)?.encloses));
    if (!this.nodes.has(this.current)) this.current = circuit.nodes[0]?.id ?? null;
    this.anchor = null;
    return this.lay();
  }

  lay() {
    this.request += 1;
    this.say("Laying out the circuit…");
    const done = new Promise((resolve) => (this.drawn = resolve));
    const collapsed = [...this.collapsed];
    this.worker.postMessage({ request: this.request, circuit: this.circuit, collapsed });
    return done;
  }

  receive({ request, placed, error }) {
    if (request !== this.request) return;
    if (error) {
      this.say(`The circuit cannot be laid out: ${error}`);
      return;
    }
    this.say("");
    this.placed = placed;
    this.draw();
    this.update(this.numbers);
    if (this.hidden) this.unseen = true;
    else if (this.anchor) this.center(this.anchor, this.scale);
    else this.start();
    this.drawn();
  }

  toggle(id) {
    if (this.collapsed.has(id)) this.collapsed.delete(id);
    else this.collapsed.add(id);
    this.anchor = id;
    this.current = id;
    this.lay().then(() => this.groups.get(id)?.focus({ preventScroll: true }));
  }

  // --- drawing --------------------------------------------------------------------------------

  draw() {
    const { boxes, edges } = this.placed;
    this.groups = new Map();
    this.lines = edges.map((edge) => ({ ...edge, path: line(edge.points) }));
    const frames = [];
    const simple = [];
    for (const node of this.circuit.nodes) {
      const box = boxes.get(node.id);
      if (!box) continue;
      const open = node.encloses && !this.collapsed.has(node.id);
      const group = open ? this.frame(node, box) : this.box(node, box);
      this.groups.set(node.id, group);
      (open ? frames : simple).push(group);
    }
    const paths = this.lines.map((edge) => {
      edge.shape = shape("path", { d: edge.path, class: `edge ${edge.kind}`, "marker-end": "url(#arrow)" });
      return edge.shape;
    });
    this.flows = shape("g", { class: "flows", "aria-hidden": "true" });
    this.drawing.replaceChildren(...frames, shape("g", { "aria-hidden": "true" }, ...paths), this.flows, ...simple);
    this.tabStop();
  }

  box(node, { x, y, width, height }) {
    const texts = {
      numbers: shape("text", { x: 12, y: 50, class: "numbers" }),
    };
    const detail = node.encloses ? "a scope, collapsed" : (node.relation ?? node.columns);
    const room = width - MARGIN;
    const title = cut(node.title, node.encloses ? room - HANDLE : room, ...LABEL);
    const group = shape(
      "g",
      {
        class: `node ${kindOf(node)}${node.encloses ? " scope" : ""}`,
        transform: `translate(${x} ${y})`,
        role: "button",
        tabindex: "-1",
        "data-id": node.id,
        click: (event) => this.pick(node.id, event),
      },
      shape("rect", { width, height, rx: 6, class: "body" }),
      shape("rect", { width: 5, height, rx: 2, class: "stripe" }),
      shape("text", { x: 12, y: 18, class: "label" }, title),
      shape("text", { x: 12, y: 34, class: "detail" }, cut(detail, room, ...DETAIL)),
      texts.numbers,
      shape("title", {}, node.tooltip),
    );
    group.texts = texts;
    if (node.encloses) group.append(this.handle(node, width, "▸"));
    return group;
  }

  frame(node, { x, y, width, height }) {
    const texts = { numbers: shape("text", { x: 14, y: 20, class: "numbers" }) };
    const title = cut(node.title, TITLE, ...LABEL);
    texts.numbers.setAttribute("x", 22 + widthOf(title, ...LABEL));
    const group = shape(
      "g",
      {
        class: "node frame",
        transform: `translate(${x} ${y})`,
        role: "button",
        tabindex: "-1",
        "data-id": node.id,
        click: (event) => this.pick(node.id, event),
      },
      shape("rect", { width, height, rx: 10, class: "body" }),
      shape("text", { x: 14, y: 20, class: "label" }, title),
      texts.numbers,
      shape("title", {}, node.tooltip),
    );
    group.texts = texts;
    group.append(this.handle(node, width, "▾"));
    return group;
  }

  handle(node, width, sign) {
    return shape(
      "g",
      {
        class: "handle",
        transform: `translate(${width - 26} 4)`,
        "aria-hidden": "true",
        click: (event) => {
          event.stopPropagation();
          this.toggle(node.id);
        },
      },
      shape("rect", { width: 22, height: 22, rx: 4 }),
      shape("text", { x: 11, y: 16 }, sign),
    );
  }

  // --- numbers and flow -------------------------------------------------------------------------

  /** Show the numbers of a tick: by node rows, seconds, stored rows. */
  update(numbers) {
    this.numbers = numbers;
    if (!this.placed) return;
    for (const [id, group] of this.groups) {
      const facts = numbers[id];
      const node = this.nodes.get(id);
      group.texts.numbers.textContent = facts ? summary(facts, node.encloses) : "";
      group.classList.toggle("active", changed(facts));
      group.setAttribute("aria-label", `${node.title}${node.path && `, node ${node.path}`}${facts ? `, ${spoken(facts)}` : ""}`);
    }
    for (const edge of this.lines) {
      const active = changed(numbers[edge.source]);
      edge.shape.classList.toggle("active", active);
      edge.shape.setAttribute("marker-end", active ? "url(#arrow-active)" : "url(#arrow)");
    }
  }

  /** Animate the changes along the edges from these boxes, in the order of evaluation. */
  flow(wanted = () => true) {
    if (!this.placed || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const order = new Map(this.circuit.nodes.map((node, index) => [node.id, index]));
    const active = this.lines.filter((edge) => changed(this.numbers[edge.source]) && wanted(edge.source));
    const steps = [...new Set(active.map((edge) => order.get(edge.source)))].sort((a, b) => a - b);
    const each = steps.length > 1 ? STAGGER / (steps.length - 1) : 0;
    this.flows.replaceChildren(
      ...active.map((edge) => {
        const path = shape("path", { d: edge.path, class: "flow", pathLength: "100" });
        path.style.animationDelay = `${Math.round(steps.indexOf(order.get(edge.source)) * each)}ms`;
        path.addEventListener("animationend", () => path.remove());
        return path;
      }),
    );
  }

  // --- selection and keys -----------------------------------------------------------------------

  pick(id, event) {
    if (this.moved) return;
    event?.stopPropagation();
    this.mark(id);
    this.select(id);
  }

  /** Mark a node as the selected one. */
  mark(id) {
    this.groups.get(this.selected)?.classList.remove("selected");
    this.selected = id;
    this.current = id;
    this.groups.get(id)?.classList.add("selected");
    this.tabStop();
  }

  /** Mark a node, and move it into view, after opening the scopes around it. */
  async reveal(id) {
    const around = [];
    for (let at = this.nodes.get(id)?.frame; at; at = this.nodes.get(at).frame) around.push(at);
    if (around.some((scope) => this.collapsed.delete(scope))) {
      this.anchor = null;
      await this.lay();
    }
    this.mark(id);
    this.anchor = id;
    if (this.hidden) this.unseen = true;
    else this.center(id, Math.max(this.scale, READABLE));
  }

  tabStop() {
    for (const [id, group] of this.groups) {
      group.setAttribute("tabindex", id === this.current ? "0" : "-1");
      group.classList.toggle("selected", id === this.selected);
    }
    if (!this.groups.has(this.current)) {
      const [first] = this.groups.values();
      first?.setAttribute("tabindex", "0");
    }
  }

  key(event) {
    const id = event.target.closest?.(".node")?.dataset.id;
    if (!id) return;
    const node = this.nodes.get(id);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.pick(id);
    } else if (node.encloses && (event.key === "c" || event.key === "C")) {
      this.toggle(id);
    } else if (event.key === "+" || event.key === "-") {
      this.zoom(event.key === "+" ? 1.25 : 0.8);
    } else if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      this.focus(this.neighbour(id, event.key));
    } else if (event.key === "Home" || event.key === "End") {
      event.preventDefault();
      const all = [...this.groups.keys()];
      this.focus(all.at(event.key === "Home" ? 0 : -1));
    }
  }

  /** Return the nearest node in a direction, by the places of the boxes. */
  neighbour(id, key) {
    const middle = ({ x, y, width, height }) => [x + width / 2, y + Math.min(height, 58) / 2];
    const [x, y] = middle(this.placed.boxes.get(id));
    const along = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[key];
    let best = id;
    let least = Infinity;
    for (const other of this.groups.keys()) {
      if (other === id) continue;
      const [ox, oy] = middle(this.placed.boxes.get(other));
      const forward = (ox - x) * along[0] + (oy - y) * along[1];
      const aside = Math.abs((ox - x) * along[1]) + Math.abs((oy - y) * along[0]);
      if (forward > 4 && forward + 2 * aside < least) [best, least] = [other, forward + 2 * aside];
    }
    return best;
  }

  focus(id) {
    this.current = id;
    this.tabStop();
    const group = this.groups.get(id);
    group.focus({ preventScroll: true });
    const [inside, canvas] = [group.getBoundingClientRect(), this.canvas.getBoundingClientRect()];
    const visible = inside.left >= canvas.left && inside.right <= canvas.right
      && inside.top >= canvas.top && inside.top + 40 <= canvas.bottom;
    if (!visible) this.center(id, this.scale);
  }

  // --- the part of the drawing in view ----------------------------------------------------------

  get hidden() {
    return this.canvas.clientWidth === 0;
  }

  transform() {
    this.drawing.setAttribute("transform", `translate(${this.left} ${this.top}) scale(${this.scale})`);
  }

  size() {
    return [this.canvas.clientWidth || 800, this.canvas.clientHeight || 600];
  }

  fit() {
    if (!this.placed) return;
    const [width, height] = this.size();
    this.scale = Math.min(1.2, width / this.placed.width, height / this.placed.height);
    this.left = (width - this.placed.width * this.scale) / 2;
    this.top = Math.max(0, (height - this.placed.height * this.scale) / 2);
    this.transform();
  }

  /** Show the whole circuit, or its first node if the whole circuit could not be read. */
  start() {
    this.fit();
    if (this.scale < READABLE && this.current !== null) {
      this.center(this.current, READABLE + 0.15);
      this.top = 8;
      this.transform();
    }
  }

  center(id, scale) {
    const box = this.placed?.boxes.get(id);
    if (!box) return;
    const [width, height] = this.size();
    this.scale = scale;
    this.left = width / 2 - (box.x + box.width / 2) * scale;
    this.top = height / 2 - (box.y + Math.min(box.height, height / scale - 20) / 2) * scale;
    this.transform();
  }

  zoom(factor, x = this.size()[0] / 2, y = this.size()[1] / 2) {
    const scale = Math.min(3, Math.max(0.02, this.scale * factor));
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.transform();
  }

  handlePointers() {
    const held = new Map();
    const at = (event) => {
      const { left, top } = this.canvas.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    const spread = () => {
      const [[ax, ay], [bx, by]] = [...held.values()];
      return [Math.hypot(ax - bx, ay - by), (ax + bx) / 2, (ay + by) / 2];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, at(event));
      this.moved = false;
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!held.has(event.pointerId)) return;
      const [x, y] = at(event);
      const [beforeX, beforeY] = held.get(event.pointerId);
      if (!this.moved && Math.hypot(x - beforeX, y - beforeY) < 5) return;
      this.moved = true;
      this.canvas.setPointerCapture(event.pointerId);
      const before = held.size === 2 ? spread() : null;
      held.set(event.pointerId, [x, y]);
      if (before) {
        const [distance, middleX, middleY] = spread();
        this.left += middleX - before[1];
        this.top += middleY - before[2];
        this.zoom(distance / Math.max(before[0], 1), middleX, middleY);
      } else {
        this.left += x - beforeX;
        this.top += y - beforeY;
        this.transform();
      }
    });
    for (const name of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(name, (event) => {
        held.delete(event.pointerId);
        // The click that ends a movement selects nothing.
        setTimeout(() => (this.moved = false));
      });
    }
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 400), ...at(event));
      },
      { passive: false },
    );
  }
}

function changed(facts) {
  return (facts?.rows ?? 0) > 0;
}

function summary({ rows, seconds, stored, iterations }, scope) {
  const parts = scope || rows === undefined ? [] : [`Δ ${short(rows)}`];
  if (iterations) parts.push(counted(iterations, "iteration"));
  if (seconds !== undefined) parts.push(duration(seconds));
  if (stored !== undefined) parts.push(`${short(stored)} kept`);
  return parts.join(" · ");
}

function spoken({ rows, seconds, stored, iterations }) {
  const parts = rows === undefined ? [] : [counted(rows, "changed row")];
  if (iterations !== undefined) parts.push(counted(iterations, "iteration"));
  if (seconds !== undefined) parts.push(duration(seconds));
  if (stored !== undefined) parts.push(`${counted(stored, "row")} kept`);
  return parts.join(", ");
}

function arrow(id) {
  return shape(
    "marker",
    { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    shape("path", { d: "M0 0 L8 4 L0 8 z", class: id }),
  );
}

/** Return the path of a curve through the middles of a polyline. */
function line(points) {
  const text = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  if (points.length < 3) return `M${points.map(text).join("L")}`;
  let path = `M${text(points[0])}`;
  for (let i = 1; i < points.length - 1; i += 1) {
    const [x, y] = points[i];
    const [nextX, nextY] = points[i + 1];
    const end = i === points.length - 2 ? points[i + 1] : [(x + nextX) / 2, (y + nextY) / 2];
    path += `Q${text([x, y])} ${text(end)}`;
  }
  return path;
}
