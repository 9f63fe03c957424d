// The panel of one stream: its columns, its delta in a tick, its integral, and proofs of rows.

import { get } from "./api.js";
import { counted, element, whole } from "./elements.js";

const PAUSE = 200;

export class StreamPanel {
  /** `report` shows an error in the page. */
  constructor(section, report) {
    this.proofs = false; // whether rows of relations have proofs
    this.section = section;
    this.report = report;
    this.what = "delta";
    this.tick = null;
    this.offset = 0;
    this.asked = 0;
    this.empty();
  }

  empty() {
    this.node = null;
    this.section.replaceChildren(
      element("p", { className: "hint" }, "Select an operator to see the rows of its stream."),
    );
  }

  /**
   * Show the stream of an operator. `tick` is null for the latest tick, and `iteration` for the
   * whole tick.
   */
  show(node, tick, iteration = null) {
    const same = this.node?.id === node.id && !this.node.encloses;
    if (!same || iteration !== this.iteration) this.offset = 0;
    Object.assign(this, { node, tick, iteration });
    if (!same) {
      this.search = "";
      this.build();
    }
    this.shownTick();
    return this.load();
  }

  /** Show a scope: the rows that its operators emitted in each iteration. */
  showScope(node, iterations, chosen, choose) {
    this.node = node;
    const rows = iterations.map(({ nodes }, index) => {
      const total = Object.values(nodes).reduce((sum, facts) => sum + facts.rows, 0);
      const button = element(
        "button",
        { type: "button", "aria-pressed": String(index === chosen), click: () => choose(index) },
        `Iteration ${index}`,
      );
      return element("tr", {}, element("td", {}, button), element("td", { className: "amount" }, whole(total)));
    });
    const heads = ["Iteration", "Rows emitted"].map((name) => element("th", { scope: "col" }, name));
    this.section.replaceChildren(
      heading(node),
      element("p", { className: "count", role: "status" }, `${counted(iterations.length, "iteration")} in this tick`),
      element(
        "div",
        { className: "rows", tabIndex: 0, role: "region", "aria-label": "Iterations" },
        element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)),
      ),
    );
  }

  /** Describe a box without rows; `why` says why it has none. */
  describe(node, why) {
    this.node = node;
    this.build();
    this.caption.textContent = why;
    for (const each of [...this.tabs, this.box]) each.hidden = true;
  }

  build() {
    const { node } = this;
    const facts = [["Columns", node.columns || "none"]];
    if (node.relation) facts.push(["Relation", node.relation]);
    if (node.place) facts.push(["Place", node.place]);
    this.tabs = ["delta", "integral"].map((what) =>
      element(
        "button",
        {
          type: "button",
          "aria-pressed": String(what === this.what),
          click: () => this.choose(what),
        },
        what === "delta" ? "Changes" : "All rows",
      ),
    );
    this.box = element("input", {
      type: "search",
      id: "search",
      placeholder: "Search the rows",
      "aria-label": "Search the rows",
      autocomplete: "off",
      input: () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => {
          this.search = this.box.value;
          this.offset = 0;
          this.load();
        }, PAUSE);
      },
    });
    this.caption = element("p", { className: "count", role: "status" });
    this.rows = element("div", { className: "rows", tabIndex: 0, role: "region", "aria-label": "Rows" });
    this.pages = element("div", { className: "pages" });
    this.proof = element("div", { className: "proof", "aria-live": "polite" });
    this.section.replaceChildren(
      heading(node),
      element(
        "dl",
        {},
        ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
      ),
      ...(node.text ? [element("pre", { className: "rule", tabIndex: 0 }, node.text)] : []),
      element("div", { className: "choices" }, ...this.tabs, this.box),
      this.caption,
      this.rows,
      this.pages,
      this.proof,
    );
  }

  shownTick() {
    const tick = this.tick === null ? "Changes of the tick" : `Changes of tick ${this.tick}`;
    this.tabs[0].textContent = this.iteration === null ? tick : `Iteration ${this.iteration}`;
    this.tabs[1].textContent = this.tick === null ? "All rows" : `All rows after tick ${this.tick}`;
  }

  choose(what) {
    this.what = what;
    this.offset = 0;
    this.tabs.forEach((tab, index) => tab.setAttribute("aria-pressed", String((what === "delta") === (index === 0))));
    this.load();
  }

  async load() {
    const asked = (this.asked += 1);
    const { node, what, tick, iteration, offset } = this;
    let page;
    try {
      page = await get("rows", { node: node.id, what, tick, iteration, offset, search: this.search || null });
    } catch (error) {
      if (asked !== this.asked) return;
      this.caption.textContent = error.message;
      this.rows.replaceChildren();
      this.pages.replaceChildren();
      return;
    }
    if (asked === this.asked) this.fill(page);
  }

  fill(page) {
    this.proof.replaceChildren();
    const { matching, searched, total, offset, limit } = page;
    let text = this.search ? `${whole(matching)} of ${counted(total, "row")} match` : counted(total, "row");
    if (this.search && searched < total) text = `${whole(matching)} matches in the first ${whole(searched)} of ${counted(total, "row")}`;
    this.caption.textContent = text;
    const proves = this.proofs && this.node.relation && this.tick === null && this.iteration === null;
    this.rows.replaceChildren(
      element(
        "table",
        {},
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("th", { scope: "col", className: "weight" }, "weight"),
            ...page.columns.map((column) => element("th", { scope: "col" }, column)),
            proves ? element("th", { scope: "col" }, element("span", { className: "hidden" }, "proof")) : null,
          ),
        ),
        element("tbody", {}, ...page.rows.map((row) => this.row(row, proves))),
      ),
    );
    const last = Math.min(offset + limit, matching);
    const turn = (name, to, usable) =>
      element("button", { type: "button", disabled: !usable, click: () => this.turn(to) }, name);
    this.pages.replaceChildren(
      ...(matching > limit
        ? [
            turn("Previous", Math.max(0, offset - limit), offset > 0),
            element("span", {}, `${whole(offset + 1)}–${whole(last)}`),
            turn("Next", offset + limit, last < matching),
          ]
        : []),
    );
  }

  row({ index, weight, cells }, proves) {
    const sign = weight.startsWith("-") ? "retracted" : "inserted";
    return element(
      "tr",
      { className: this.what === "delta" ? sign : "" },
      element("td", { className: "weight" }, weight.startsWith("-") ? weight.replace("-", "−") : `+${weight}`),
      ...cells.map((cell) => element("td", {}, cell)),
      proves
        ? element(
            "td",
            {},
            element(
              "button",
              { type: "button", "aria-label": `Why ${cells.join(", ")}?`, click: () => this.why(index) },
              "Why",
            ),
          )
        : null,
    );
  }

  turn(offset) {
    this.offset = offset;
    this.load();
  }

  async why(index) {
    try {
      const { lines } = await get("why", { node: this.node.id, what: this.what, index });
      const name = this.what === "delta" ? "Why the tick changed the row" : "Why the row is there";
      this.proof.replaceChildren(element("h3", {}, name), element("pre", { tabIndex: 0 }, lines.join("\n")));
      this.proof.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.report(error.message);
    }
  }
}

function heading(node) {
  return element("h2", {}, node.title, node.path ? element("small", {}, ` operator ${node.path}`) : null);
}
