// @ts-check
// What we know: which arm is best and by how much, with intervals that hold at every look.

import { applyLook, fillLegend, nameArm, selectArms } from "./arms.js";
import { drawAxisBelow, drawAxisLeft, Chart, makeScale, makeTicks, measureText, roundEnds } from "./charts.js";
import { makeSvg, fillRows, resizeChildren, make, findPart, setText, setAttributes, showMessage } from "./dom.js";
import { AccessDenied, Problem, Unavailable } from "./service.js";
import { addUnit, capitalize, formatAmount, formatSigned, makeSignedFormat } from "./format.js";
import { makeSlotNames } from "./slot-names.js";

const HEIGHT = 240;
/** Milliseconds between requests: the service computes its answer anew when something was recorded. */
const PAUSE = 10_000;
/** The part of past numbers beyond each end of the axis: the first intervals are very wide. */
const LEFT_OUT = 0.05;
/** What the axis has beyond what is known now, as a part of its range and in percent. */
const ROOM = 0.1;
const LEAST_ROOM = 0.5;
const NOT_YET = "not yet";
/** The probability with which the intervals of all guardrails hold. */
const COMMON_LEVEL = "95\u00a0%";

export class Known extends Chart {
  #running = null;
  #of = null;
  #notBefore = 0;

  constructor(section) {
    const figure = findPart(section, "known-chart");
    super(figure, "Effects with their intervals, from the first slot to now");
    this.legend = figure.appendChild(make("ul", { class: "legend", "aria-label": "Legend: arms" }));
    this.sentences = findPart(section, "known-sentences");
    this.explanation = findPart(section, "known-note");
    this.problem = findPart(section, "known-problem");
    this.table = findPart(section, "known-table");
    this.guarded = findPart(section, "known-guardrails");
    this.guardedNote = findPart(section, "known-guardrails-note");
    this.clear();
  }

  clear() {
    this.#running?.abort();
    this.#running = this.#of = null;
    this.#notBefore = 0;
    this.data = null;
    this.#showNothing("Comparing the arms …");
    showMessage(this.problem, null);
  }

  /** End a request under way; the next `refresh` asks again at once. */
  rest() {
    if (this.#running) this.#notBefore = 0;
    this.#running?.abort();
    this.#running = null;
  }

  /** Ask again if something is new. It may take seconds and fail: nothing else on the page depends on it. */
  async refresh(service, status) {
    if (status.no_results !== null) return this.#showNothing(`Not known: ${status.no_results}.`);
    const states = status.arms.map(({ state }) => state);
    const of = [status.slots, status.received, status.last_total_at, status.ended, ...states].join();
    if (this.#running || of === this.#of || performance.now() < this.#notBefore) return;
    const running = (this.#running = new AbortController());
    this.#notBefore = performance.now() + PAUSE;
    try {
      const results = await service.fetchResults(status.name, running.signal);
      this.#of = of;
      this.update(results, status);
      showMessage(this.problem, null);
    } catch (error) {
      if (running.signal.aborted) return; // another experiment is shown, or nobody looks
      if (![AccessDenied, Problem, Unavailable].some((kind) => error instanceof kind)) console.error(error);
      if (!this.data) this.#showNothing("");
      showMessage(this.problem, `The comparison failed; trying again${error.message ? `: ${error.message}` : ""}.`);
    } finally {
      if (this.#running === running) this.#running = null;
    }
  }

  update(results, status) {
    const arms = new Map(status.arms.map(({ arm }, number) => [arm, number]));
    const shown = new Set(selectArms(status.arms));
    const apart = results.effects.map(({ arm }) => arms.get(arm)).filter((arm) => shown.has(arm));
    const looks = results.history.filter(({ effects }) => effects.some(hasEnd));
    this.data = { results, arms, apart, looks, names: makeSlotNames(status) };
    this.#showSentences(results.sentences.filter((sentence) => !results.planned.includes(sentence)));
    const level = formatLevel(results.level);
    const hold = `With a probability of ${level}, all intervals contain the true effects, however often you look`;
    showMessage(this.explanation, results.blocks ? `${hold}.` : null);
    this.#fillTable();
    this.#fillGuardrails();
    this.legend.hidden = looks.length === 0;
    if (looks.length === 0) return this.showNote(null);
    fillLegend(this.legend, apart, (arm) => `${nameArm(status.arms[arm])} against ${results.control}`);
    this.show(this.data, summarize(this.data));
  }

  #showNothing(why) {
    this.#showSentences(why ? [why] : []);
    showMessage(this.explanation, null);
    this.table.hidden = this.legend.hidden = this.guarded.hidden = true;
    showMessage(this.guardedNote, null);
    this.showNote(null);
  }

  #showSentences(sentences) {
    const items = resizeChildren(this.sentences, sentences.length, () => make("li"));
    sentences.forEach((sentence, at) => setText(items[at], sentence.replaceAll(" %", "\u00a0%"))); // no break there
  }

  paint(width, { looks, apart, arms, results, names }) {
    const numbers = new Map([...arms].map(([name, number]) => [number, name]));
    const [from, to] = roundEnds(...findRange(looks, results.effects), 5);
    const upwards = makeTicks(from, to, 5);
    const write = (value) => formatSigned(value, upwards.step < 1 ? 1 : 0);
    const left = Math.max(...upwards.values.map((value) => measureText(write(value)))) + 12;
    const area = this.resize(width, HEIGHT, { left, right: 14, top: 20, bottom: 42 });
    const x = makeScale(0, results.slots, area.left, area.right);
    const y = makeScale(from, to, area.bottom, area.top);
    const cut = (value, end) => y(Math.min(to, Math.max(from, value ?? end)));
    const below = names.makeTicks(results.slots, area.right - area.left);
    drawAxisBelow(this.getLayer("below"), area, x, below, names.axisSoFar);
    drawAxisLeft(this.getLayer("grid"), area, y, { ...upwards, write }, `effect against ${results.control} in %`);
    const [zero] = resizeChildren(this.getLayer("zero"), 1, () => makeSvg("path", { class: "leader" }));
    setAttributes(zero, { d: `M${area.left} ${y(0)}H${area.right}` });
    const pair = () => makeSvg("g", {}, makeSvg("path"), makeSvg("path"));
    const groups = resizeChildren(this.getLayer("effects"), apart.length, pair);
    apart.forEach((arm, at) => {
      const past = looks.map(({ slots, effects }) => [slots, effects.find((each) => each.arm === numbers.get(arm))]);
      const open = past.filter(([, effect]) => hasEnd(effect));
      const steps = (value) => makeSteps(open.map(([slots, effect]) => [x(slots), value(effect)]));
      const high = steps((effect) => cut(effect.high, to));
      const low = steps((effect) => cut(effect.low, from)).reverse();
      const middle = steps((effect) => cut(effect.percent, 0));
      const [band, line] = groups[at].children;
      setAttributes(applyLook(band, arm, "shade"), { d: open.length ? `M${[...high, ...low].join("L")}Z` : "" });
      setAttributes(applyLook(line, arm, "effect"), { d: open.length ? `M${middle.join("L")}` : "", fill: "none" });
    });
    this.points = {
      count: looks.length,
      at: (at) => ({ x: x(looks[at].slots), y: (area.top + area.bottom) / 2, from: area.top, to: area.bottom }),
      near: (pixel) => findNearest(looks, x.back(pixel)),
      text: (at) => describePoint(this.data, at),
    };
  }

  /** The arms: the control first, as in the answer of the service. */
  #fillTable() {
    const { results, names } = this.data;
    const { control, effects, probabilities, unit } = results;
    this.table.hidden = results.blocks === 0;
    const titles = ["arm", `effect against ${control}`, addUnit(`per ${names.perSlot}`, unit), "best"];
    const amounts = effects.map(({ amount, amount_low: low, amount_high: high }) => [amount, low, high]);
    const write = makeSignedFormat(amounts.flat());
    const rows = effects.map((effect, at) => [
      markGone(effect.arm, results),
      describeEffect(effect),
      describeSpan(...amounts[at], write),
      formatChance(probabilities[effect.arm]),
    ]);
    const first = [control, "control", "–", formatChance(probabilities[control])];
    fillTable(this.table, titles, [first, ...rows]);
  }

  /** A row for each guardrail and arm. */
  #fillGuardrails() {
    const { results } = this.data;
    const found = results.guardrails;
    const rows = found.flatMap(({ guardrail, harm, tolerated, arms }) => {
      const limit = tolerated ? `more than ${formatAmount(tolerated)}\u00a0% ${harm}` : harm;
      const name = `${guardrail} (${limit} does harm)`;
      return arms.map((arm) => [markGone(arm.arm, results), name, describeEffect(arm), arm.verdict]);
    });
    this.guarded.hidden = rows.length === 0;
    const claim = "all intervals of all guardrails contain the true effects, at every look";
    const hold = `With a probability of ${COMMON_LEVEL}, ${claim}.`;
    const problems = found.filter(({ problem }) => problem !== null);
    const said = problems.map(({ guardrail, problem }) => `${capitalize(guardrail)} cannot be judged: ${problem}.`);
    showMessage(this.guardedNote, found.length ? [...(rows.length ? [hold] : []), ...said].join(" ") : null);
    fillTable(this.guarded, ["arm", "guardrail", `effect against ${results.control}`, "harm"], rows);
  }
}

function fillTable(place, titles, rows) {
  const table = place.querySelector("table");
  const [row] = resizeChildren(table.tHead ?? table.createTHead(), 1, () => make("tr"));
  const cells = resizeChildren(row, titles.length, () => make("th", { scope: "col" }));
  titles.forEach((title, at) => setText(cells[at], title));
  fillRows(table.tBodies[0] ?? table.createTBody(), rows);
}

function markGone(arm, results) {
  const mark = ["retired", "stopped", "paused"].find((each) => results[each].includes(arm));
  return mark ? `${arm} (${mark})` : arm;
}

const isEnd = (end) => end !== null;
const hasEnd = ({ low, high }) => low !== null || high !== null;
const formatLevel = (level) => `${Number((100 * level).toPrecision(3))}\u00a0%`;

/** As in the sentences: what is nearly certain is not certain. */
function formatChance(chance) {
  return chance > 0.99 ? "over 99\u00a0%" : chance < 0.01 ? "under 1\u00a0%" : `${Math.round(100 * chance)}\u00a0%`;
}

const writePercent = (value) => `${formatSigned(value, 1)}\u00a0%`;
const describeEffect = ({ percent, low, high }) => describeSpan(percent, low, high, writePercent);

function describeSpan(middle, low, high, write) {
  if (low === null && high === null) return NOT_YET;
  if (high === null) return `${write(middle)} (at least ${write(low)})`;
  if (low === null) return `${write(middle)} (at most ${write(high)})`;
  return `${write(middle)} (${write(low)} to ${write(high)})`;
}

/**
 * Percents that the axis shows: all that is known now, and most of what was before. There is room on both sides, so
 * that an interval that goes on, or has no end, does not seem to end there.
 */
function findRange(looks, effects) {
  const list = (some) => some.filter(hasEnd).flatMap(({ percent, low, high }) => [percent, low, high]);
  const past = [0, ...looks.flatMap((look) => list(look.effects))].filter(isEnd).sort((one, other) => one - other);
  const at = (part) => past[Math.round(part * (past.length - 1))];
  const now = [0, ...list(effects)].filter(isEnd);
  const [least, most] = [Math.min(at(LEFT_OUT), ...now), Math.max(at(1 - LEFT_OUT), ...now)];
  const room = Math.max(ROOM * (most - least), LEAST_ROOM);
  return [least - room, most + room];
}

/** Corners of a line that holds each value until the next. */
function makeSteps(points) {
  return points.flatMap(([x, y], at) => (at === 0 ? [`${x} ${y}`] : [`${x} ${points[at - 1][1]}`, `${x} ${y}`]));
}

function findNearest(looks, slots) {
  const distances = looks.map((look) => Math.abs(look.slots - slots));
  return distances.indexOf(Math.min(...distances));
}

function describePoint({ looks, apart, arms, names }, at) {
  const { slots, effects } = looks[at];
  const shown = effects.filter(({ arm }) => apart.includes(arms.get(arm)));
  const line = (effect) => ({ arm: arms.get(effect.arm), label: effect.arm, value: describeEffect(effect) });
  return { title: capitalize(names.nameSoFar(slots - 1)), lines: shown.map(line) };
}

function summarize({ results, names }) {
  const now = results.effects.map((effect) => `${effect.arm} ${describeEffect(effect)}`).join(", ");
  return `Effects against ${results.control} over time. ${capitalize(names.nameSoFar(results.slots - 1))}: ${now}.`;
}
