// The text of a lesson of the tour, with the button for its next tick.

import { element } from "./elements.js";

export class LessonPanel {
  /** `step` applies the next tick of the lesson. */
  constructor(place, step) {
    this.place = place;
    this.head = element("h3");
    this.next = element("p", { id: "lesson-next", role: "status" });
    this.button = element("button", { id: "lesson-step", type: "button", className: "primary", click: step }, "Step");
  }

  /** Show a lesson; `left` is the number of its ticks that are not applied yet. */
  show(lesson, left) {
    // The page of a lesson shows no other one, and a button that stays loses no click.
    if (!this.place.hasChildNodes()) this.build(lesson);
    this.head.textContent = left > 0 ? "Next" : "Then";
    this.next.textContent = lesson.next;
    this.button.hidden = left === 0;
  }

  build({ number, of, title, paragraphs }) {
    const link = (to, text) => (to < 1 || to > of ? "" : element("a", { href: `../${to}/` }, text));
    this.place.replaceChildren(
      element("h2", {}, `${number}. ${title} `, element("small", {}, `lesson ${number} of ${of}`)),
      ...paragraphs.map((text) => element("p", {}, text)),
      this.head,
      this.next,
      this.button,
      element("p", { className: "lessons" }, link(number - 1, "◂ Previous lesson"), " ", link(number + 1, "Next lesson ▸")),
    );
  }
}
