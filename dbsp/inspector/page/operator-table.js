// The operators as a table: an alternative to the drawing, and the slowest and largest ones.

import { duration, element, memory, whole } from "./elements.js";

const COLUMNS = [
  { name: "Operator", key: ({ order }) => order, text: null },
  { name: "Time", key: ({ facts }) => -(facts.seconds ?? 0), text: ({ facts }) => (facts.seconds === undefined ? "" : duration(facts.seconds)) },
  { name: "Total", key: ({ facts }) => -(facts.allSeconds ?? 0), text: ({ facts }) => (facts.allSeconds === undefined ? "" : duration(facts.allSeconds)) },
  { name: "Rows", key: ({ facts }) => -(facts.rows ?? 0), text: ({ facts }) => (facts.rows === undefined ? "" : whole(facts.rows)) },
  { name: "Kept", key: ({ facts }) => -(facts.stored ?? -1), text: ({ facts }) => (facts.stored === undefined ? "" : whole(facts.stored)) },
  { name: "Memory", key: ({ facts }) => -(facts.bytes ?? -1), text: ({ facts }) => (facts.bytes === undefined ? "" : memory(facts.bytes)) },
];

export class OperatorTable {
  constructor(section, select) {
    this.select = select;
    this.nodes = [];
    this.numbers = {};
    this.sorted = 0;
    this.box = element("input", {
      type: "search",
      placeholder: "Find an operator, relation or rule",
      "aria-label": "Find an operator, relation or rule",
      autocomplete: "off",
      input: () => this.draw(),
    });
    this.heads = COLUMNS.map(({ name }, index) =>
      element(
        "th",
        { scope: "col" },
        element("button", { type: "button", click: () => this.sort(index) }, name),
      ),
    );
    this.body = element("tbody");
    this.total = element("p", { className: "count", role: "status" });
    section.append(
      element("h2", {}, "Operators"),
      this.box,
      this.total,
      element(
        "div",
        { className: "rows", tabIndex: 0, role: "region", "aria-label": "Operators" },
        element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)), this.body),
      ),
    );
  }

  sort(index) {
    this.sorted = index;
    this.draw();
  }

  /** Show the operators of a circuit with their numbers. */
  show(nodes, numbers, total) {
    this.nodes = nodes;
    this.numbers = numbers;
    this.total.textContent = total;
    this.draw();
  }

  draw() {
    this.heads.forEach((head, index) => {
      head.setAttribute("aria-sort", index === this.sorted ? (index ? "descending" : "ascending") : "none");
    });
    const wanted = this.box.value.toLowerCase();
    const found = this.nodes
      .map((node, order) => ({ node, order, facts: this.numbers[node.id] ?? {} }))
      .filter(({ node }) =>
        [node.title, node.path, node.relation, node.text, node.place].join(" ").toLowerCase().includes(wanted),
      );
    const { key } = COLUMNS[this.sorted];
    found.sort((a, b) => key(a) - key(b) || a.order - b.order);
    this.body.replaceChildren(
      ...found.map((entry) =>
        element(
          "tr",
          {},
          element(
            "td",
            { className: "operator" },
            element(
              "button",
              { type: "button", className: "link", click: () => this.select(entry.node.id) },
              `${entry.node.path} ${entry.node.title}`,
            ),
          ),
          ...COLUMNS.slice(1).map(({ text }) => element("td", { className: "amount" }, text(entry))),
        ),
      ),
    );
  }
}
