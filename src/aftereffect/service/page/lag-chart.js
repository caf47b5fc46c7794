// @ts-check
// The lag: the share of a reward that has arrived after each number of slots, estimated from the totals.

import { drawAxisBelow, drawAxisLeft, Chart, makeScale, makeTicks, measureText } from "./charts.js";
import { makeSvg, fillRows, resizeChildren, make, findPart, setText, setAttributes, showMessage } from "./dom.js";
import { AccessDenied, Problem, Unavailable } from "./service.js";
import { describeLag, formatCount, formatPercent, formatQuantity } from "./format.js";
import { formatTenths, formatWholePercent } from "./format.js";
import { makeSlotNames } from "./slot-names.js";

const HEIGHT = 240;
/** Rows of the table. */
const MAX_ROWS = 16;
/** The service renews its estimate when there are more totals by this share. */
const RENEWAL_SHARE = 1 / 20;
/** Milliseconds between requests after a failure. */
const RETRY_PAUSE = 15_000;

export class LagChart extends Chart {
  #running = null;
  #received = null;
  #notBefore = 0;

  constructor(section) {
    super(findPart(section, "lag-chart"), "Share of a reward that has arrived, by time after the pull");
    this.card = findPart(section, "lag-card");
    this.sentence = findPart(section, "lag-sentence");
    this.explanation = findPart(section, "lag-note");
    this.problem = findPart(section, "lag-problem");
    this.table = findPart(section, "lag-table");
    this.table.addEventListener("toggle", () => this.fillTable());
    this.clear();
  }

  clear() {
    this.#running?.abort();
    this.#running = this.#received = null;
    this.#notBefore = 0;
    this.data = null;
    this.table.hidden = true;
    this.showNote(null);
    for (const place of [this.explanation, this.problem]) showMessage(place, null);
    setText(this.sentence, "Estimating …");
  }

  /** End a request under way; the next `refresh` asks again. */
  rest() {
    this.#running?.abort();
    this.#running = null;
  }

  /** Ask again if there is enough new. It may take seconds and fail: nothing else on the page depends on it. */
  async refresh(service, status) {
    const { name, received, units } = status;
    this.card.hidden = units.length > 0; // the lag is that of one series of totals
    if (this.card.hidden) return;
    const grown = this.#received === null || received - this.#received >= Math.max(1, RENEWAL_SHARE * this.#received);
    if (this.#running || !grown || performance.now() < this.#notBefore) return;
    const running = (this.#running = new AbortController());
    try {
      const estimate = await service.fetchLag(name, running.signal);
      this.#received = received;
      this.update({ ...estimate, names: makeSlotNames(status) });
      showMessage(this.problem, null);
    } catch (error) {
      if (running.signal.aborted) return; // another experiment is shown, or nobody looks
      if (![AccessDenied, Problem, Unavailable].some((kind) => error instanceof kind)) console.error(error);
      this.#notBefore = performance.now() + RETRY_PAUSE;
      if (!this.data) setText(this.sentence, "");
      showMessage(this.problem, `The estimate failed; trying again${error.message ? `: ${error.message}` : ""}.`);
    } finally {
      if (this.#running === running) this.#running = null;
    }
  }

  update(estimate) {
    this.data = estimate;
    setText(this.sentence, describeLag(estimate, estimate.names));
    this.table.hidden = !estimate.conclusive;
    if (!estimate.conclusive) {
      showMessage(this.explanation, null);
      return this.showNote(null);
    }
    const from = `Estimated from the arms and totals of ${formatQuantity(estimate.slots, "slot")}`;
    const assumed = "assuming that all arms have the same delay and that nothing changes over time";
    showMessage(this.explanation, `${from}, ${assumed}.`);
    this.show(estimate, summarize(estimate));
    this.fillTable();
  }

  paint(width, estimate) {
    const { lags, arrived, arrived_low, arrived_high, mean, low, high, names } = estimate;
    const area = this.resize(width, HEIGHT, { left: 44, right: 14, top: 20, bottom: 42 });
    const x = makeScale(0, lags.length, area.left, area.right);
    const y = makeScale(0, 1, area.bottom, area.top);
    const below = makeTicks(0, lags.length, (area.right - area.left) / 60, true);
    drawAxisBelow(this.getLayer("below"), area, x, below, `${names.manySlots} after the pull`);
    const quarters = { values: [0, 0.25, 0.5, 0.75, 1], write: formatWholePercent };
    drawAxisLeft(this.getLayer("grid"), area, y, quarters, "share that has arrived");
    // A step for each lag.
    const step = (lag, value) => [`${x(lag)} ${y(value)}`, `${x(lag + 1)} ${y(value)}`];
    const steps = (values) => lags.flatMap((lag, at) => step(lag, values[at]));
    const kinds = ["mean-band", "range", "mean", "mean-lag"];
    const paths = resizeChildren(this.getLayer("steps"), kinds.length, (at) => makeSvg("path", { class: kinds[at] }));
    const [from, to] = [x(Math.min(low, lags.length)), x(Math.min(high, lags.length))];
    setAttributes(paths[0], { d: `M${from} ${area.top}H${to}V${area.bottom}H${from}Z` });
    setAttributes(paths[1], { d: `M${[...steps(arrived_high), ...steps(arrived_low).reverse()].join("L")}Z` });
    setAttributes(paths[2], { d: `M${area.left} ${area.bottom}L${steps(arrived).join("L")}` });
    setAttributes(paths[3], { d: `M${x(mean)} ${area.top}V${area.bottom}` });
    // The label is to the right of the line, or to the left where there is no room.
    const text = `mean lag ${formatTenths(mean)} ${names.manySlots}`;
    const onRight = to + 6 + measureText(text) <= area.right;
    const place = onRight ? { x: to + 6, "text-anchor": "start" } : { x: from - 6, "text-anchor": "end" };
    const [label] = resizeChildren(this.getLayer("names"), 1, () => makeSvg("text", { class: "label" }));
    setText(setAttributes(label, { ...place, y: area.bottom - 8 }), text);
    this.points = {
      count: lags.length,
      at: (at) => ({ x: x(lags[at] + 0.5), y: y(arrived[at]), from: area.top, to: area.bottom }),
      near: (pixel) => Math.min(lags.length - 1, Math.max(0, Math.floor(x.back(pixel)))),
      text: (at) => describePoint(estimate, at),
    };
  }

  /** As a table, at some lags; only while it is open. */
  fillTable() {
    if (!this.table.open || !this.data?.conclusive) return;
    const { lags, arrived, arrived_low, arrived_high, level, names } = this.data;
    const table = this.table.querySelector("table");
    const [row] = resizeChildren(table.tHead ?? table.createTHead(), 1, () => make("tr"));
    const titles = [`${names.manySlots} later`, "arrived", `${formatWholePercent(level)} band`];
    const cells = resizeChildren(row, titles.length, () => make("th", { scope: "col" }));
    titles.forEach((title, at) => setText(cells[at], title));
    const step = Math.max(1, Math.ceil(lags.length / MAX_ROWS));
    const band = (at) => formatBand(arrived_low[at], arrived_high[at]);
    const rows = lags.map((lag, at) => [formatCount(lag), formatPercent(arrived[at]), band(at)]);
    fillRows(table.tBodies[0] ?? table.createTBody(), rows.filter((_, at) => at % step === 0));
  }
}

const formatBand = (low, high) => `${formatPercent(low)} to ${formatPercent(high)}`;

function describePoint({ lags, arrived, arrived_low, arrived_high, level, names: { oneSlot, manySlots } }, at) {
  const after = `After ${formatQuantity(lags[at], oneSlot, manySlots)}`;
  const title = lags[at] === 0 ? `In the ${oneSlot} of the pull` : after;
  const band = { label: `${formatWholePercent(level)} band`, value: formatBand(arrived_low[at], arrived_high[at]) };
  return { title, lines: [{ label: "arrived", value: formatPercent(arrived[at]) }, band] };
}

function summarize({ lags, arrived, p90, names: { oneSlot, manySlots } }) {
  const half = lags[arrived.findIndex((share) => share >= 0.5)] ?? lags.at(-1);
  const most = `nine tenths within ${formatTenths(p90.value)} ${manySlots}`;
  const reached = `half within ${formatQuantity(half, oneSlot, manySlots)}, ${most}`;
  const until = `up to ${formatQuantity(lags.at(-1), oneSlot, manySlots)}`;
  return `Share of a reward that has arrived by each lag, ${until}: ${reached}. More is in the table below.`;
}
