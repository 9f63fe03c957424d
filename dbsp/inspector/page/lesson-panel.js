// The text of a lesson of the tour, with the button for its next tick.

import { element } from "./elements.js";

export class LessonPanel {
  /** `step` applies the next tick of the lesson. */
  constructor(place, step) {
    this.place = place;
    this.step = step;
  }

  /** Show a lesson; `left` is the number of its ticks that are not applied yet. */
  show(lesson, left) {
    const { number, of, title, paragraphs, next } = lesson;
    const link = (to, text) => (to < 1 || to > of ? null : element("a", { href: `../${to}/` }, text));
    const shown = [
      element("h2", {}, `${number}. ${title} `, element("small", {}, `lesson ${number} of ${of}`)),
      ...paragraphs.map((text) => element("p", {}, text)),
      element("h3", {}, left > 0 ? "Next" : "Then"),
      element("p", { id: "lesson-next", role: "status" }, next),
      left > 0 ? element("button", { id: "lesson-step", type: "button", className: "primary", click: this.step }, "Step") : null,
      element("p", { className: "lessons" }, link(number - 1, "◂ Previous lesson"), " ", link(number + 1, "Next lesson ▸")),
    ];
    const focused = document.activeElement?.id === "lesson-step";
    this.place.replaceChildren(...shown.filter((each) => each !== null));
    if (focused) document.getElementById("lesson-step")?.focus();
  }
}
