// @ts-check
// One experiment: the current arm, all arms, and the history.

import { applyLook, MAX_APART, selectArms } from "./arms.js";
import { resizeChildren, make, findPart, setText, setAttributes, showMessage } from "./dom.js";
import { Download } from "./download.js";
import { Known } from "./known.js";
import { LagChart } from "./lag-chart.js";
import { MAX_MEANS, MAX_WIDE_ROWS, Means } from "./means.js";
import { PlannedCard } from "./plans.js";
import { Problem } from "./service.js";
import { Shares } from "./shares.js";
import { describeCalendar, makeSlotNames } from "./slot-names.js";
import { ArmsTable } from "./table.js";
import { Totals } from "./totals.js";
import { UnitsTable } from "./units.js";
import { capitalize, describeArms, describeDraw, describeFloors, describeLastTotal } from "./format.js";
import { describeLateness, describeNow, describeRule, describeState, describeStops } from "./format.js";
import { describeProvisional, describeWaiting, formatCount, formatQuantity, joinWords } from "./format.js";

/** Pieces of the history: as many as a screen can show, fewer if there are thousands of arms. */
const MAX_PIECES = 400;
const MAX_NUMBERS = 400_000;
const MIN_PIECES = 40;
/** Milliseconds after which the history is read again in any case: a revised total changes no count. */
const MAX_AGE = 10_000;

export class Detail {
  #name = null;
  #status = null;
  #drawn = { of: "", at: 0 };

  constructor(root) {
    this.root = root;
    this.table = new ArmsTable(findPart(root, "arms"), () => this.#showArms());
    this.units = new UnitsTable(root);
    this.means = new Means(findPart(root, "means"), (arm) => this.#highlight(arm));
    this.download = new Download(root);
    this.shares = new Shares(findPart(root, "shares"), findPart(root, "shares-table"));
    this.totals = new Totals(findPart(root, "totals"), findPart(root, "totals-table"), findPart(root, "totals-note"));
    this.lagChart = new LagChart(root);
    this.known = new Known(root);
    this.planned = new PlannedCard(root);
    // What takes seconds is not computed for nobody.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) [this.known, this.lagChart].forEach((card) => card.rest());
    });
    for (const place of [findPart(root, "arms"), this.shares.legend, this.totals.legend]) {
      place.addEventListener("pointerover", ({ target }) => {
        const square = target.closest("tr, li")?.querySelector("[data-arm]");
        this.#highlight(square?.dataset.arm ?? null);
      });
      place.addEventListener("pointerleave", () => this.#highlight(null));
    }
  }

  /** Show another experiment, and nothing of the one before. */
  enter(name) {
    if (name !== this.#name) this.clear();
    this.#name = name;
    setText(findPart(this.root, "name"), name);
    setAttributes(this.root, { "aria-label": `Experiment ${name}` });
    window.scrollTo(0, 0);
  }

  clear() {
    this.#name = this.#status = null;
    this.#drawn = { of: "", at: 0 };
    findPart(this.root, "body").hidden = true;
    findPart(this.root, "state").hidden = true;
    showMessage(findPart(this.root, "problem"), null);
    for (const chart of [this.shares, this.totals]) chart.showNote("Reading the history …");
    this.lagChart.clear();
    this.known.clear();
    this.download.clear();
  }

  /** Read and show the experiment; returns whether that worked. */
  async refresh(service, signal) {
    try {
      this.#show(await service.fetchStatus(this.#name, signal));
      this.download.offer(service, this.#name);
      await this.planned.refresh(service, this.#status, signal);
      await this.#readHistory(service, signal);
      // Not awaited: each may take seconds.
      if (!signal.aborted) [this.known, this.lagChart].forEach((card) => void card.refresh(service, this.#status));
      showMessage(findPart(this.root, "problem"), null);
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      findPart(this.root, "body").hidden = true;
      findPart(this.root, "state").hidden = true;
      showMessage(findPart(this.root, "problem"), error.message);
      return false;
    }
  }

  #show(status) {
    this.#status = status;
    findPart(this.root, "body").hidden = false;
    findPart(this.root, "state").hidden = false;
    const state = describeState(status, makeSlotNames(status));
    setText(setAttributes(findPart(this.root, "state"), { "data-state": status.state }), state);
    this.#showNow(status);
    this.#showFacts(status);
    this.units.update(status);
    this.#showArms();
  }

  #showNow(status) {
    const names = makeSlotNames(status);
    const [before, arm, after] = describeNow(status, names);
    setText(findPart(this.root, "before"), before);
    setText(findPart(this.root, "after"), after);
    const place = findPart(this.root, "arm");
    place.hidden = arm === null;
    if (arm !== null) {
      applyLook(place.querySelector("rect"), status.arms.findIndex((each) => each.arm === arm));
      setText(place.querySelector("strong"), arm);
    }
    setText(findPart(this.root, "waiting"), describeWaiting(status, names));
    const sentences = [...describeStops(status), ...status.notes.map((note) => `${capitalize(note)}.`)];
    const notes = resizeChildren(findPart(this.root, "notes"), sentences.length, () => make("li"));
    sentences.forEach((sentence, at) => setText(notes[at], sentence));
  }

  #showFacts(status) {
    const names = makeSlotNames(status);
    const decided = status.slots - status.skipped;
    const withMore = (number, more, word) => formatCount(number) + (more ? `, ${formatCount(more)} ${word}` : "");
    const facts = [
      ["slots decided", withMore(decided, status.skipped, "skipped")],
      ["totals received", withMore(status.received, status.missing, "of them missing")],
      ["totals learned", withMore(status.learned, status.waiting, "waiting")],
      ["last total", describeLastTotal(status, names)],
      ["totals come", describeLateness(status, names)],
      ...describeProvisional(status),
      ["rounds closed", formatCount(status.rounds)],
      ["arms", formatCount(status.arms.length)],
      ...(status.units.length ? [["units", formatCount(status.units.length)]] : []),
      ...describeArms(status, names),
      ["horizon", status.horizon === null ? "open" : formatQuantity(status.horizon, "slot")],
      ["policy", status.policy],
      ...describeCalendar(status),
      ...(status.control === null ? [] : [["control", status.control]]),
      ...describeFloors(status),
      ...(status.history ? [["history", formatQuantity(status.history, "slot")]] : []),
      ...(status.unit === null ? [] : [["unit of the totals", status.unit]]),
      ...describeRule(status, names),
      ...(status.guardrails.length ? [["guardrails", status.guardrails.join(", ")]] : []),
      ...(status.covariates.length ? [["covariates", joinWords(status.covariates)]] : []),
    ];
    const item = () => make("div", {}, make("dt"), make("dd"));
    const items = resizeChildren(findPart(this.root, "facts"), facts.length, item);
    facts.forEach(([title, text], at) => {
      setText(items[at].firstElementChild, title);
      setText(items[at].lastElementChild, text);
    });
  }

  #showArms() {
    const status = this.#status;
    if (!status) return;
    const order = this.table.sort(status);
    this.table.update(status, order);
    findPart(this.root, "means").parentElement.classList.toggle("many", order.length > MAX_WIDE_ROWS);
    this.means.update(status, order);
    showMessage(findPart(this.root, "drawn"), describeDraw(status));
    const all = status.arms.length;
    const shown = `This chart shows the ${MAX_MEANS - 1} arms with most pulls, and the table all arms.`;
    showMessage(findPart(this.root, "left-out"), all > MAX_MEANS ? shown : null);
    const left = formatCount(all - selectArms(status.arms).length);
    const apart = `The ${MAX_APART - 1} arms with most pulls are shown one by one, and the other ${left} together.`;
    showMessage(findPart(this.root, "grouped"), all > MAX_APART ? apart : null);
  }

  /** Highlight one arm in the charts of the history. */
  #highlight(arm) {
    this.shares.highlight(arm);
    this.totals.highlight(arm);
  }

  async #readHistory(service, signal) {
    const { slots, received, missing, rounds, arms, ended } = this.#status;
    const of = [slots, received, missing, rounds, ended].join();
    if (of === this.#drawn.of && (ended || performance.now() - this.#drawn.at < MAX_AGE)) return;
    const pieces = Math.max(MIN_PIECES, Math.min(MAX_PIECES, Math.floor(MAX_NUMBERS / arms.length)));
    const timeline = await service.fetchTimeline(this.#name, pieces, signal);
    this.#drawn = { of, at: performance.now() };
    this.shares.update(this.#status, timeline);
    this.totals.update(this.#status, timeline);
  }
}
