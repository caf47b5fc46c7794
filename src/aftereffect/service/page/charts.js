// @ts-check
// What all charts share: a drawing that is updated in place, and a reader for its points, by pointer or keyboard.

import { makeSvg, resizeChildren, make, setText, setAttributes, showMessage } from "./dom.js";
import { applyLook, makeSwatch } from "./arms.js";
import { makeTickFormat } from "./format.js";

const pen = document.createElement("canvas").getContext("2d");
/** Pixels between a point and its tooltip. */
const GAP = 14;
/** On a narrower chart, as on a phone, names stand above or below what they name. */
export const MIN_WIDE = 480;
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 };

/** A chart in a figure. Subclasses have a method `paint`, which draws and sets `points`. */
export class Chart {
  /** Their number, the position of each (`x`, `y`), the one nearest to a position, and the text of each. */
  points = { count: 0, at: () => ({ x: 0, y: 0 }), near: () => 0, text: () => ({ title: "", lines: [] }) };
  #chosen = null;
  #pointer = null;
  #data = null;

  constructor(figure, label) {
    this.svg = makeSvg("svg", { role: "img", class: "drawing" });
    this.reader = make("div", { class: "reader", role: "slider", tabindex: "0" });
    setAttributes(this.reader, { "aria-label": label, "aria-valuemin": "0" });
    this.tip = make("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    this.plot = make("div", { class: "plot" }, this.svg, this.reader, this.tip);
    this.note = make("p", { class: "soft" });
    figure.append(this.plot, this.note);
    this.showNote("Reading the history …");
    new ResizeObserver(() => this.#redraw()).observe(this.plot);
    this.reader.addEventListener("pointermove", (event) => this.#point(event));
    this.reader.addEventListener("pointerdown", (event) => this.#point(event));
    this.reader.addEventListener("pointerleave", () => this.#leave());
    this.reader.addEventListener("keydown", (event) => this.#key(event));
    this.reader.addEventListener("focus", () => this.#focus());
    this.reader.addEventListener("blur", () => this.#choose(null));
  }

  /** Show a note instead of a drawing. */
  showNote(why) {
    this.plot.hidden = true;
    showMessage(this.note, why);
  }

  /** Draw these data; `summary` describes the drawing in words. */
  show(data, summary) {
    this.#data = data;
    this.plot.hidden = false;
    showMessage(this.note, null);
    setAttributes(this.svg, { "aria-label": summary });
    this.#redraw();
  }

  /** Highlight one arm, or none. */
  highlight(arm) {
    this.svg.classList.toggle("choosing", arm !== null);
    for (const node of this.svg.querySelectorAll("[data-arm]")) {
      node.toggleAttribute("data-chosen", node.dataset.arm === String(arm));
    }
  }

  /** A group of the drawing, by its class. It is made at the first call, so later groups lie above. */
  getLayer(name, attributes = {}) {
    const known = this.svg.querySelector(`:scope > .${name}`) ?? this.svg.appendChild(makeSvg("g", { class: name }));
    return setAttributes(known, attributes);
  }

  /** Set the size of the drawing, and of the area that the reader covers. */
  resize(width, height, { left, right, top, bottom }) {
    setAttributes(this.svg, { width, height, viewBox: `0 0 ${width} ${height}` });
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
    setAttributes(this.reader, { "aria-valuemax": Math.max(0, last) });
    const chosen = this.#pointer ? this.points.near(this.#pointer.x, this.#pointer.y) : this.#chosen;
    this.#choose(chosen === null || last < 0 ? null : Math.min(chosen, last));
  }

  #point(event) {
    const box = this.plot.getBoundingClientRect();
    this.#pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
    this.#choose(this.points.near(this.#pointer.x, this.#pointer.y));
  }

  /** When the keyboard brings the focus here, show a point at once. */
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
    const goal = event.key in STEPS ? now + STEPS[event.key] : { Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.#leave();
    if (goal === undefined) return;
    event.preventDefault();
    this.#pointer = null;
    this.#choose(Math.max(0, Math.min(last, goal)));
  }

  #choose(number) {
    if (number !== this.#chosen) this.onChoose?.(number);
    this.#chosen = number;
    const reading = number ?? this.points.count - 1;
    if (reading >= 0) {
      const { title, lines } = this.points.text(reading);
      const spoken = [title, ...lines.map(({ label, value }) => `${label} ${value}`)].join(", ");
      setAttributes(this.reader, { "aria-valuenow": reading, "aria-valuetext": spoken });
    }
    this.tip.hidden = number === null;
    const here = this.getLayer("here", { visibility: number === null ? "hidden" : "visible" });
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

  /** Mark the chosen point in the drawing. */
  mark(layer, { x, from, to }) {
    const [line] = resizeChildren(layer, 1, () => makeSvg("line"));
    setAttributes(line, { x1: x, x2: x, y1: from, y2: to });
  }

  #fillTip({ title, lines }) {
    const [head, list] = resizeChildren(this.tip, 2, (at) => make(at === 0 ? "strong" : "ul"));
    setText(head, title);
    const makeSpan = (kind) => make("span", { class: kind });
    const item = () => make("li", {}, makeSwatch(0), makeSpan("name"), makeSpan("value"));
    const items = resizeChildren(list, lines.length, item);
    lines.forEach(({ arm, label, value }, at) => {
      const [colour, name, figure] = items[at].children;
      colour.classList.toggle("no-arm", arm === undefined);
      if (arm !== undefined) applyLook(colour.firstElementChild, arm);
      setText(name, label);
      setText(figure, value);
    });
  }
}

/** A linear scale from values to pixels. */
export function makeScale(from, to, first, last) {
  const step = to === from ? 0 : (last - first) / (to - from);
  const place = (value) => Math.round((first + (value - from) * step) * 10) / 10;
  return Object.assign(place, { back: (pixel) => (step === 0 ? from : from + (pixel - first) / step) });
}

/** About so many round numbers between two values; only whole ones if wanted. */
export function makeTicks(from, to, about, onlyWhole = false) {
  const rough = (to - from) / Math.max(1, about) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].find((times) => times * power >= rough * 0.999) * power;
  if (onlyWhole) step = Math.max(1, Math.round(step));
  const values = [];
  for (let number = Math.ceil(from / step - 1e-9); number * step <= to + step * 1e-9; number += 1) {
    values.push(number * step || 0); // no -0
  }
  return { values, step, write: makeTickFormat(step, Math.max(Math.abs(from), Math.abs(to))) };
}

/** Round ends of an axis for values from low to high; zero is on it where that takes little room. */
export function roundEnds(low, high, about) {
  const from = low > 0 && low < (high - low) / 2 ? 0 : low;
  const to = high > from ? high : from + 1;
  const { step } = makeTicks(from, to, about);
  return [Math.floor(from / step + 1e-9) * step, Math.ceil(to / step - 1e-9) * step];
}

/** Values below a drawing; if `through`, with lines through it. */
export function drawAxisBelow(layer, area, place, { values, write }, title, through = false) {
  drawAxis(layer, values.length, title, (number, line, text) => {
    const x = place(values[number]);
    setAttributes(line, { x1: x, x2: x, y1: through ? area.top : area.bottom, y2: area.bottom + 4 });
    setText(setAttributes(text, { x, y: area.bottom + 17, "text-anchor": "middle" }), write(values[number]));
  }, { x: area.right, y: area.bottom + 33, "text-anchor": "end" });
}

/** Values to the left of a drawing, with lines through it. */
export function drawAxisLeft(layer, area, place, { values, write }, title) {
  drawAxis(layer, values.length, title, (number, line, text) => {
    const y = place(values[number]);
    setAttributes(line, { x1: area.left, x2: area.right, y1: y, y2: y });
    setText(setAttributes(text, { x: area.left - 7, y: y + 4, "text-anchor": "end" }), write(values[number]));
  }, { x: 0, y: 11, "text-anchor": "start" });
}

function drawAxis(layer, count, title, tick, titlePosition) {
  const [marks, name] = resizeChildren(layer, 2, (at) => makeSvg(at === 0 ? "g" : "text"));
  const groups = resizeChildren(marks, count, () => makeSvg("g", {}, makeSvg("line"), makeSvg("text")));
  for (let number = 0; number < count; number += 1) tick(number, ...groups[number].children);
  setText(setAttributes(name, { ...titlePosition, class: "axis-title" }), title);
}

/** The width of a text in pixels. */
export function measureText(text) {
  pen.font = "12px system-ui, sans-serif";
  return pen.measureText(text).width;
}

/** Texts that fit into a width and differ as before: if need be, without what all of them begin and end with. */
export function truncateTexts(texts, width) {
  const cut = texts.map((text) => truncateText(text, width));
  if (new Set(cut).size === texts.length) return cut;
  const all = texts.map((text) => [...text]);
  const most = Math.min(...all.map((letters) => letters.length)) - 1;
  const isShared = (find) => all.every((letters) => find(letters) === find(all[0]));
  let [before, after] = [0, 0];
  while (before < most && isShared((letters) => letters[before])) before += 1;
  while (before + after < most && isShared((letters) => letters.at(-1 - after))) after += 1;
  const core = (letters) => letters.slice(before, letters.length - after).join("");
  return all.map((letters) => truncateText(`${before ? "…" : ""}${core(letters)}${after ? "…" : ""}`, width));
}

/** As much of a text as fits into a width: its beginning and its end, as names often differ at the end only. */
function truncateText(text, width) {
  if (measureText(text) <= width) return text;
  const letters = [...text];
  const end = (count) => letters.slice(letters.length - Math.floor(count / 2)).join("");
  const cut = (count) => `${letters.slice(0, Math.ceil(count / 2)).join("")}…${end(count)}`;
  let count = letters.length - 1;
  while (count > 1 && measureText(cut(count)) > width) count -= 1;
  return cut(count);
}
