// One experiment: what runs now, the arms, and how it came to that.

import { dress, MOST, shownOf } from "./arms.js";
import { keep, make, part, say, set, tell } from "./dom.js";
import { Estimates, MANY } from "./estimates.js";
import { Landing } from "./landing.js";
import { Problem } from "./service.js";
import { Shares } from "./shares.js";
import { ArmsTable } from "./table.js";
import { Totals } from "./totals.js";
import { count, counted, now, state, waits } from "./words.js";

/** Pieces of the history: as many as a screen shows, fewer where each must tell of thousands of arms. */
const PIECES = 400;
const MOST_NUMBERS = 400_000;
const FEWEST_PIECES = 40;
/** A total that is revised changes no count, so that the history is read again now and then in any case. */
const AGAIN = 10_000;

export class Detail {
  #name = null;
  #status = null;
  #drawn = { of: "", at: 0 };

  constructor(root) {
    this.root = root;
    this.table = new ArmsTable(part(root, "arms"), () => this.#showArms());
    this.estimates = new Estimates(part(root, "estimates"), (arm) => this.#highlight(arm));
    this.shares = new Shares(part(root, "shares"), part(root, "shares-table"));
    this.totals = new Totals(part(root, "totals"), part(root, "totals-table"), part(root, "totals-note"));
    this.landing = new Landing(root);
    for (const place of [part(root, "arms"), this.shares.legend, this.totals.legend]) {
      place.addEventListener("pointerover", ({ target }) => {
        const square = target.closest("tr, li")?.querySelector("[data-arm]");
        this.#highlight(square?.dataset.arm ?? null);
      });
      place.addEventListener("pointerleave", () => this.#highlight(null));
    }
  }

  /** Show another experiment: nothing of the one before stays. */
  enter(name) {
    if (name !== this.#name) this.clear();
    this.#name = name;
    say(part(this.root, "name"), name);
    set(this.root, { "aria-label": `Experiment ${name}` });
    window.scrollTo(0, 0);
  }

  clear() {
    this.#name = this.#status = null;
    this.#drawn = { of: "", at: 0 };
    part(this.root, "body").hidden = true;
    part(this.root, "state").hidden = true;
    tell(part(this.root, "problem"), null);
    for (const chart of [this.shares, this.totals]) chart.wait("Reading the history …");
    this.landing.clear();
  }

  /** Whether all is well with it. */
  async refresh(service, signal) {
    try {
      this.#show(await service.status(this.#name, signal));
      await this.#readHistory(service, signal);
      if (!signal.aborted) this.landing.refresh(service, this.#name, this.#status.told); // and nobody waits for it
      tell(part(this.root, "problem"), null);
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      part(this.root, "body").hidden = true;
      part(this.root, "state").hidden = true;
      tell(part(this.root, "problem"), error.message);
      return false;
    }
  }

  #show(status) {
    this.#status = status;
    part(this.root, "body").hidden = false;
    part(this.root, "state").hidden = false;
    say(set(part(this.root, "state"), { "data-state": state(status) }), state(status));
    this.#showNow(status);
    this.#showFacts(status);
    this.#showArms();
  }

  #showNow(status) {
    const [before, arm, after] = now(status);
    say(part(this.root, "before"), before);
    say(part(this.root, "after"), after);
    const place = part(this.root, "arm");
    place.hidden = arm === null;
    if (arm !== null) {
      dress(place.querySelector("rect"), status.arms.findIndex((each) => each.arm === arm));
      say(place.querySelector("strong"), arm);
    }
    say(part(this.root, "waits"), waits(status));
    const notes = keep(part(this.root, "notes"), status.notes.length, () => make("li"));
    status.notes.forEach((note, at) => say(notes[at], `${note[0].toUpperCase()}${note.slice(1)}.`));
  }

  #showFacts(status) {
    const decided = status.slots - status.skipped;
    const told = status.missing ? `${count(status.told)}, ${count(status.missing)} of them missing` : count(status.told);
    const learned = status.waiting ? `${count(status.learned)}, ${count(status.waiting)} wait for a round` : count(status.learned);
    const facts = [
      ["slots decided", status.skipped ? `${count(decided)}, ${count(status.skipped)} skipped` : count(decided)],
      ["totals told", told],
      ["totals learned", learned],
      ["totals come", status.late === null ? "not yet" : status.late ? `${counted(status.late, "slot")} late` : "at once"],
      ["rounds closed", count(status.rounds)],
      ["arms", count(status.arms.length)],
      ["horizon", status.horizon === null ? "open" : counted(status.horizon, "slot")],
      ["policy", status.policy],
    ];
    const items = keep(part(this.root, "facts"), facts.length, () => make("div", {}, make("dt"), make("dd")));
    facts.forEach(([title, text], at) => {
      say(items[at].firstElementChild, title);
      say(items[at].lastElementChild, text);
    });
  }

  #showArms() {
    const status = this.#status;
    if (!status) return;
    const order = this.table.order(status.arms);
    this.table.update(status, order);
    part(this.root, "estimates").parentElement.classList.toggle("many", order.length > MANY);
    this.estimates.update(status, order);
    const known = status.arms.filter(({ mean }) => mean !== null);
    part(this.root, "no-radius").hidden = known.length === 0 || known.some(({ radius }) => radius !== null);
    const left = status.arms.length - shownOf(status.arms).length;
    const shown = `Charts show the ${MOST - 1} most played arms; the other ${count(left)} are taken together.`;
    tell(part(this.root, "left-out"), left ? `${shown} The table has all.` : null);
  }

  /** Let one arm stand out in the pictures of the past: of many arms one sees little else. */
  #highlight(arm) {
    this.shares.highlight(arm);
    this.totals.highlight(arm);
  }

  async #readHistory(service, signal) {
    const { slots, told, missing, rounds, arms, closed } = this.#status;
    const of = [slots, told, missing, rounds, closed].join();
    if (of === this.#drawn.of && (closed || performance.now() - this.#drawn.at < AGAIN)) return;
    const pieces = Math.max(FEWEST_PIECES, Math.min(PIECES, Math.floor(MOST_NUMBERS / arms.length)));
    const timeline = await service.timeline(this.#name, pieces, signal);
    this.#drawn = { of, at: performance.now() };
    this.shares.update(this.#status, timeline);
    this.totals.update(this.#status, timeline);
  }
}
