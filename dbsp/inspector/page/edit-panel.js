// The form that inserts and retracts rows of the inputs, and the edits that wait for the next tick.

import { counted, element } from "./elements.js";

export class EditPanel {
  /** `apply` sends the edits as one tick and resolves to whether the tick was applied. */
  constructor(section, apply) {
    this.apply = apply;
    this.edits = [];
    this.sending = false;
    this.inputs = [];
    this.relation = element("select", { id: "edit-relation", change: () => this.fields() });
    this.columns = element("div", { className: "fields" });
    this.list = element("ul", { className: "edits" });
    this.count = element("p", { role: "status", className: "hint" });
    this.commit = element("button", { type: "button", className: "primary", click: () => this.send() }, "Apply as one tick");
    this.drop = element("button", { type: "button", click: () => this.forget() }, "Discard");
    this.form = element(
      "form",
      {
        submit: (event) => {
          event.preventDefault();
          this.add(event.submitter?.value === "-1" ? -1 : 1);
        },
      },
      element("label", { for: "edit-relation" }, "Input"),
      this.relation,
      this.columns,
      element(
        "div",
        { className: "choices" },
        element("button", { type: "submit", value: "1" }, "Insert"),
        element("button", { type: "submit", value: "-1" }, "Retract"),
      ),
    );
    this.none = element("p", { className: "hint", hidden: true }, "The circuit has no inputs.");
    section.append(
      element("h2", {}, "Edit rows"),
      this.none,
      this.form,
      this.count,
      this.list,
      element("div", { className: "choices" }, this.commit, this.drop),
    );
    this.draw();
  }

  /** Offer these inputs. */
  offer(inputs) {
    const chosen = this.relation.value;
    this.inputs = inputs;
    this.form.hidden = inputs.length === 0;
    this.none.hidden = inputs.length > 0;
    this.relation.replaceChildren(
      ...inputs.map(({ relation }) => element("option", { value: relation }, relation)),
    );
    if (inputs.some(({ relation }) => relation === chosen)) this.relation.value = chosen;
    this.fields();
  }

  fields() {
    const input = this.inputs.find(({ relation }) => relation === this.relation.value);
    this.cells = (input?.columns ?? []).map((column, index) => {
      const id = `edit-cell-${index}`;
      const numeric = column.type.startsWith("int");
      const box = element("input", {
        id,
        autocomplete: "off",
        inputMode: numeric ? "numeric" : "text",
        disabled: !column.editable,
      });
      const nil = column.nullable
        ? element("input", { type: "checkbox", id: `${id}-nil`, change: () => (box.disabled = nil.checked) })
        : null;
      return { box, nil, column, id };
    });
    this.columns.replaceChildren(
      ...this.cells.map(({ box, nil, column, id }) =>
        element(
          "div",
          { className: "field" },
          element("label", { for: id }, column.name, element("small", {}, ` ${column.type}`)),
          box,
          nil && element("label", { className: "nil", for: nil.id }, nil, " nil"),
        ),
      ),
    );
  }

  add(weight) {
    const cells = this.cells.map(({ box, nil }) => (nil?.checked ? null : box.value));
    this.edits.push({ relation: this.relation.value, weight, cells });
    this.draw();
    this.cells[0]?.box.focus();
    this.cells[0]?.box.select();
  }

  draw() {
    this.count.textContent = this.edits.length ? `${counted(this.edits.length, "edit")} for the next tick` : "No edits yet.";
    this.drop.disabled = this.edits.length === 0;
    this.commit.disabled = this.sending || this.edits.length === 0;
    this.list.replaceChildren(
      ...this.edits.map((edit, index) => {
        const text = `${edit.weight > 0 ? "+" : "−"}${edit.relation}(${edit.cells.map((cell) => cell ?? "nil").join(", ")})`;
        return element(
          "li",
          { className: edit.weight > 0 ? "inserted" : "retracted" },
          element("code", {}, text),
          element(
            "button",
            {
              type: "button",
              "aria-label": `Remove ${text}`,
              click: () => {
                this.edits.splice(index, 1);
                this.draw();
                (this.list.querySelectorAll("button")[index] ?? this.relation).focus();
              },
            },
            "×",
          ),
        );
      }),
    );
  }

  forget() {
    this.edits = [];
    this.draw();
  }

  async send() {
    const sent = [...this.edits];
    this.sending = this.commit.disabled = true; // a second click would send them twice
    const applied = await this.apply(sent);
    this.sending = false;
    if (applied) this.edits = this.edits.filter((each) => !sent.includes(each));
    this.draw();
  }
}
