// What all charts share: a drawing that is brought up to date in place, and a reader that goes through it by pointer or keys.

import { draw, keep, make, say, set, tell } from "./dom.js";
import { dress, swatch } from "./arms.js";
import { tickAmounts } from "./words.js";

const pen = document.createElement("canvas").getContext("2d");
/** Pixels between a point and what is said of it. */
const GAP = 14;
const AHEAD = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

/** A chart in a figure. Those below say how to `paint` it and, by that, what its points are. */
export class Chart {
  /** By number: where they are (`x`, `y`), which is nearest to a place, what is to be said of one. */
  points = { count: 0, at: () => ({ x: 0, y: 0 }), near: () => 0, text: () => ({ title: "", lines: [] }) };
  #chosen = null;
  #pointer = null;
  #data = null;

  constructor(figure, label) {
    this.svg = draw("svg", { role: "img", class: "drawing" });
    this.reader = make("div", { class: "reader", role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": "0" });
    this.tip = make("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    this.plot = make("div", { class: "plot" }, this.svg, this.reader, this.tip);
    this.note = make("p", { class: "soft" });
    figure.append(this.plot, this.note);
    this.wait("Reading the history …");
    new ResizeObserver(() => this.#redraw()).observe(this.plot);
    this.reader.addEventListener("pointermove", (event) => this.#point(event));
    this.reader.addEventListener("pointerdown", (event) => this.#point(event));
    this.reader.addEventListener("pointerleave", () => this.#leave());
    this.reader.addEventListener("keydown", (event) => this.#key(event));
    this.reader.addEventListener("focus", () => this.#focus());
    this.reader.addEventListener("blur", () => this.#choose(null));
  }

  /** Say why there is nothing to see. */
  wait(why) {
    this.plot.hidden = true;
    tell(this.note, why);
  }

  /** Draw this from now on; `summary` is what the picture says, in words. */
  show(data, summary) {
    this.#data = data;
    this.plot.hidden = false;
    tell(this.note, null);
    set(this.svg, { "aria-label": summary });
    this.#redraw();
  }

  /** Make one arm stand out, or none. */
  highlight(arm) {
    this.svg.classList.toggle("choosing", arm !== null);
    for (const node of this.svg.querySelectorAll("[data-arm]")) {
      node.toggleAttribute("data-chosen", node.dataset.arm === String(arm));
    }
  }

  /** One group of the drawing, by its class; made when it is first asked for, so that what comes later lies above. */
  layer(name, attributes = {}) {
    const known = this.svg.querySelector(`:scope > .${name}`) ?? this.svg.appendChild(draw("g", { class: name }));
    return set(known, attributes);
  }

  /** The drawing's size, and the part of it that the reader covers. */
  size(width, height, { left, right, top, bottom }) {
    set(this.svg, { width, height, viewBox: `0 0 ${width} ${height}` });
    const area = { left, right: Math.max(left + 20, width - right), top, bottom: height - bottom };
    const place = { left, top, width: area.right - left, height: area.bottom - top };
    for (const [side, pixels] of Object.entries(place)) this.reader.style[side] = `${pixels}px`;
    return area;
  }

  #redraw() {
    const width = this.plot.clientWidth;
    if (width === 0 || this.#data === null) return;
    this.paint(width, this.#data);
    const last = this.points.count - 1;
    this.reader.hidden = last < 0;
    set(this.reader, { "aria-valuemax": Math.max(0, last) });
    const kept = this.#pointer ? this.points.near(this.#pointer.x, this.#pointer.y) : this.#chosen;
    this.#choose(kept === null || last < 0 ? null : Math.min(kept, last));
  }

  #point(event) {
    const box = this.plot.getBoundingClientRect();
    this.#pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
    this.#choose(this.points.near(this.#pointer.x, this.#pointer.y));
  }

  /** Who comes by keyboard sees at once what there is to read. */
  #focus() {
    if (this.reader.matches(":focus-visible")) this.#choose(this.#chosen ?? this.points.count - 1);
  }

  #leave() {
    this.#pointer = null;
    this.#choose(null);
  }

  #key(event) {
    const last = this.points.count - 1;
    const now = this.#chosen ?? last;
    const goal = event.key in AHEAD ? now + AHEAD[event.key] : { Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.#leave();
    if (goal === undefined) return;
    event.preventDefault();
    this.#pointer = null;
    this.#choose(Math.max(0, Math.min(last, goal)));
  }

  #choose(number) {
    if (number !== this.#chosen) this.chosen?.(number);
    this.#chosen = number;
    const reading = number ?? this.points.count - 1;
    if (reading >= 0) {
      const { title, lines } = this.points.text(reading);
      const spoken = [title, ...lines.map(({ label, value }) => `${label} ${value}`)].join(", ");
      set(this.reader, { "aria-valuenow": reading, "aria-valuetext": spoken });
    }
    this.tip.hidden = number === null;
    const here = this.layer("here", { visibility: number === null ? "hidden" : "visible" });
    if (number === null) return;
    const place = this.points.at(number);
    this.mark(here, place);
    this.#fillTip(this.points.text(number));
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const left = place.x + GAP + width > this.plot.clientWidth ? place.x - GAP - width : place.x + GAP;
    const beside = Math.max(0, Math.min(place.y - height / 2, this.plot.clientHeight - height));
    const top = place.below ?? beside;
    this.tip.style.transform = `translate(${Math.max(0, Math.round(left))}px, ${Math.round(top)}px)`;
  }

  /** Show in the drawing which point is read. */
  mark(layer, { x, from, to }) {
    const [line] = keep(layer, 1, () => draw("line"));
    set(line, { x1: x, x2: x, y1: from, y2: to });
  }

  #fillTip({ title, lines }) {
    const [head, list] = keep(this.tip, 2, (at) => make(at === 0 ? "strong" : "ul"));
    say(head, title);
    const span = (kind) => make("span", { class: kind });
    const items = keep(list, lines.length, () => make("li", {}, swatch(0), span("name"), span("value")));
    lines.forEach(({ arm, label, value }, at) => {
      const [colour, name, figure] = items[at].children;
      colour.classList.toggle("no-arm", arm === undefined);
      if (arm !== undefined) dress(colour.firstElementChild, arm);
      say(name, label);
      say(figure, value);
    });
  }
}

/** A straight scale: from values to pixels. */
export function scale(from, to, first, last) {
  const step = to === from ? 0 : (last - first) / (to - from);
  const place = (value) => Math.round((first + (value - from) * step) * 10) / 10;
  return Object.assign(place, { back: (pixel) => (step === 0 ? from : from + (pixel - first) / step) });
}

/** Round numbers from one value to another, about so many; whole ones where there is nothing between. */
export function ticks(from, to, about, onlyWhole = false) {
  const rough = (to - from) / Math.max(1, about) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].find((times) => times * power >= rough * 0.999) * power;
  if (onlyWhole) step = Math.max(1, Math.round(step));
  const values = [];
  for (let number = Math.ceil(from / step - 1e-9); number * step <= to + step * 1e-9; number += 1) {
    values.push(number * step || 0); // no -0
  }
  return { values, step, write: tickAmounts(step, Math.max(Math.abs(from), Math.abs(to))) };
}

/** Ends of an axis on which some values fit, at round numbers; zero is on it where that costs little room. */
export function round(least, most, about) {
  const from = least > 0 && least < (most - least) / 2 ? 0 : least;
  const to = most > from ? most : from + 1;
  const { step } = ticks(from, to, about);
  return [Math.floor(from / step + 1e-9) * step, Math.ceil(to / step - 1e-9) * step];
}

/** Values below a drawing, with lines through it where `through` says so. */
export function axisBelow(layer, area, place, { values, write }, title, through = false) {
  axis(layer, values.length, title, (number, line, text) => {
    const x = place(values[number]);
    set(line, { x1: x, x2: x, y1: through ? area.top : area.bottom, y2: area.bottom + 4 });
    say(set(text, { x, y: area.bottom + 17, "text-anchor": "middle" }), write(values[number]));
  }, { x: area.right, y: area.bottom + 33, "text-anchor": "end" });
}

/** Values on the left of a drawing, with lines through it. */
export function axisLeft(layer, area, place, { values, write }, title) {
  axis(layer, values.length, title, (number, line, text) => {
    const y = place(values[number]);
    set(line, { x1: area.left, x2: area.right, y1: y, y2: y });
    say(set(text, { x: area.left - 7, y: y + 4, "text-anchor": "end" }), write(values[number]));
  }, { x: 0, y: 11, "text-anchor": "start" });
}

function axis(layer, count, title, tick, placeOfTitle) {
  const [marks, name] = keep(layer, 2, (at) => draw(at === 0 ? "g" : "text"));
  const groups = keep(marks, count, () => draw("g", {}, draw("line"), draw("text")));
  for (let number = 0; number < count; number += 1) tick(number, ...groups[number].children);
  say(set(name, { ...placeOfTitle, class: "axis-title" }), title);
}

/** How wide a text is drawn. */
export function widthOf(text) {
  pen.font = "12px system-ui, sans-serif";
  return pen.measureText(text).width;
}

/** As much of a text as fits. */
export function fitting(text, width) {
  if (widthOf(text) <= width) return text;
  let letters = [...text];
  while (letters.length > 1 && widthOf(`${letters.join("")}…`) > width) letters = letters.slice(0, -1);
  return `${letters.join("")}…`;
}
