// How long effects linger: the share of a reward that has landed by each lag, as the totals tell.

import { axisBelow, axisLeft, Chart, scale, ticks, widthOf } from "./charts.js";
import { draw, fill, keep, make, part, say, set, tell } from "./dom.js";
import { Away, Locked, Problem } from "./service.js";
import { count, counted, lasting, lingering, percent, tenths, wholePercent } from "./words.js";

const HEIGHT = 240;
/** Rows of the table: enough to read, few enough to take in. */
const MOST_ROWS = 16;
/** The service makes no new estimate before there are more totals by this share. */
const GROWN = 1 / 20;
/** Milliseconds until it is asked again when it could not answer. */
const PAUSE = 15_000;

export class Landing extends Chart {
  #running = null;
  #told = null;
  #notBefore = 0;

  constructor(section) {
    super(part(section, "landing"), "Share of a reward that has landed, by slots after the pull");
    this.sentence = part(section, "lingering");
    this.explanation = part(section, "lingering-note");
    this.problem = part(section, "lingering-problem");
    this.table = part(section, "landing-table");
    this.table.addEventListener("toggle", () => this.fillTable());
    this.clear();
  }

  clear() {
    this.#running?.abort();
    this.#running = this.#told = null;
    this.#notBefore = 0;
    this.data = null;
    this.table.hidden = true;
    this.wait(null);
    for (const place of [this.explanation, this.problem]) tell(place, null);
    say(this.sentence, "Estimating …");
  }

  /** Ask anew if that is worth it. It may take seconds and fail: nothing else on the page waits for it or minds. */
  async refresh(service, name, told) {
    const grown = this.#told === null || told - this.#told >= Math.max(1, GROWN * this.#told);
    if (this.#running || !grown || performance.now() < this.#notBefore) return;
    const running = (this.#running = new AbortController());
    try {
      const estimate = await service.lag(name, running.signal);
      this.#told = told;
      this.update(estimate);
      tell(this.problem, null);
    } catch (error) {
      if (running.signal.aborted) return; // another experiment is shown by now
      if (![Away, Locked, Problem].some((kind) => error instanceof kind)) console.error(error);
      this.#notBefore = performance.now() + PAUSE;
      if (!this.data) say(this.sentence, "");
      tell(this.problem, `The estimate could not be had, trying again${error.message ? `: ${error.message}` : ""}.`);
    } finally {
      if (this.#running === running) this.#running = null;
    }
  }

  update(estimate) {
    this.data = estimate;
    say(this.sentence, lingering(estimate));
    this.table.hidden = !estimate.known;
    if (!estimate.known) {
      tell(this.explanation, null);
      return this.wait(null);
    }
    const from = `Estimated from nothing but the totals of ${counted(estimate.slots, "slot")}`;
    tell(this.explanation, `${from}, as if all arms spread their rewards alike and nothing changed meanwhile.`);
    this.show(estimate, summary(estimate));
    this.fillTable();
  }

  paint(width, estimate) {
    const { lags, landed, landed_low, landed_high, mean, low, high } = estimate;
    const area = this.size(width, HEIGHT, { left: 44, right: 14, top: 20, bottom: 42 });
    const x = scale(0, lags.length, area.left, area.right);
    const y = scale(0, 1, area.bottom, area.top);
    axisBelow(this.layer("below"), area, x, ticks(0, lags.length, (area.right - area.left) / 60, true), "slots after the pull");
    axisLeft(this.layer("grid"), area, y, { values: [0, 0.25, 0.5, 0.75, 1], write: wholePercent }, "share that has landed");
    // What lands in a slot is there from then on: a step for each lag.
    const steps = (values) => lags.flatMap((lag, at) => [`${x(lag)} ${y(values[at])}`, `${x(lag + 1)} ${y(values[at])}`]);
    const kinds = ["mean-band", "range", "mean", "mean-lag"];
    const paths = keep(this.layer("steps"), kinds.length, (at) => draw("path", { class: kinds[at] }));
    const [from, to] = [x(Math.min(low, lags.length)), x(Math.min(high, lags.length))];
    set(paths[0], { d: `M${from} ${area.top}H${to}V${area.bottom}H${from}Z` });
    set(paths[1], { d: `M${[...steps(landed_high), ...steps(landed_low).reverse()].join("L")}Z` });
    set(paths[2], { d: `M${area.left} ${area.bottom}L${steps(landed).join("L")}` });
    set(paths[3], { d: `M${x(mean)} ${area.top}V${area.bottom}` });
    // Below the steps there is room on the right; where there is too little, on the left.
    const text = `mean lag ${tenths(mean)}`;
    const onRight = to + 6 + widthOf(text) <= area.right;
    const place = onRight ? { x: to + 6, "text-anchor": "start" } : { x: from - 6, "text-anchor": "end" };
    const [label] = keep(this.layer("names"), 1, () => draw("text", { class: "label" }));
    say(set(label, { ...place, y: area.bottom - 8 }), text);
    this.points = {
      count: lags.length,
      at: (at) => ({ x: x(lags[at] + 0.5), y: y(landed[at]), from: area.top, to: area.bottom }),
      near: (pixel) => Math.min(lags.length - 1, Math.max(0, Math.floor(x.back(pixel)))),
      text: (at) => described(estimate, at),
    };
  }

  /** As a table, at some lags; only while it is open. */
  fillTable() {
    if (!this.table.open || !this.data?.known) return;
    const { lags, landed, landed_low, landed_high, level } = this.data;
    const table = this.table.querySelector("table");
    const [row] = keep(table.tHead ?? table.createTHead(), 1, () => make("tr"));
    const titles = ["slots later", "landed", `${wholePercent(level)} band`];
    const cells = keep(row, titles.length, () => make("th", { scope: "col" }));
    titles.forEach((title, at) => say(cells[at], title));
    const step = Math.max(1, Math.ceil(lags.length / MOST_ROWS));
    const rows = lags.map((lag, at) => [count(lag), percent(landed[at]), between(landed_low[at], landed_high[at])]);
    fill(table.tBodies[0] ?? table.createTBody(), rows.filter((_, at) => at % step === 0));
  }
}

const between = (low, high) => `${percent(low)} to ${percent(high)}`;

function described({ lags, landed, landed_low, landed_high, level }, at) {
  const title = lags[at] === 0 ? "In the slot of the pull" : `After ${counted(lags[at], "slot")}`;
  const band = { label: `${wholePercent(level)} band`, value: between(landed_low[at], landed_high[at]) };
  return { title, lines: [{ label: "landed", value: percent(landed[at]) }, band] };
}

function summary({ lags, landed, lingers }) {
  const half = lags[landed.findIndex((share) => share >= 0.5)] ?? lags.at(-1);
  const reached = `half within ${counted(half, "slot")}, nine tenths within ${lasting(lingers.value)}`;
  return `Share of a reward that has landed by each lag, up to ${counted(lags.at(-1), "slot")}: ${reached}. More is in the table below.`;
}
