// @ts-check
// Saved plans: links to them, one plan with its tables, and what an experiment remembers of its plan.

import { fillRows, resizeChildren, make, findPart, setText, setAttributes, showMessage } from "./dom.js";

/** What an address begins with if it names a plan: no experiment has such a name. */
const PREFIX = "plan:";

/** The digest of the plan that an address names; null if it names something else. */
export function readDigest(name) {
  return name?.startsWith(PREFIX) ? name.slice(PREFIX.length) : null;
}

/** Fill a list with links to plans. */
export function fillPlanLinks(list, plans) {
  list.hidden = plans.length === 0;
  const items = resizeChildren(list, plans.length, () => make("li", { class: "card" }, make("a"), make("p")));
  plans.forEach(({ digest, sentences }, at) => {
    setText(setAttributes(items[at].firstElementChild, { href: `#${PREFIX}${digest}` }), `Plan ${digest}`);
    setText(items[at].lastElementChild, sentences[0]);
  });
}

/** What an experiment remembers of its plan, with a link if the service has the whole plan. */
export class PlannedCard {
  constructor(root) {
    this.card = findPart(root, "planned");
    this.link = findPart(root, "planned-link");
  }

  async refresh(service, { plan, planned }, signal) {
    this.card.hidden = plan === null;
    if (plan === null) return;
    fillList(findPart(this.card, "planned-sentences"), planned);
    const origin = `A plan of ${plan.design} with seed ${plan.seed}, made by version ${plan.version}: ${plan.digest}.`;
    setText(findPart(this.card, "planned-note"), origin);
    const plans = await service.fetchPlans(signal);
    this.link.hidden = !plans.some(({ digest }) => digest === plan.digest);
    setAttributes(this.link, { href: `#${PREFIX}${plan.digest}` });
  }
}

/** The view of one plan. */
export class PlanView {
  #digest = null;

  constructor(root) {
    this.root = root;
    this.body = findPart(root, "plan-body");
  }

  enter(digest) {
    this.#digest = digest;
    this.clear();
    setText(findPart(this.root, "plan-title"), `Plan ${digest}`);
    window.scrollTo(0, 0);
  }

  clear() {
    this.body.hidden = true;
    showMessage(findPart(this.root, "plan-problem"), null);
  }

  async refresh(service, signal) {
    const plan = (await service.fetchPlans(signal)).find(({ digest }) => digest === this.#digest);
    this.body.hidden = plan === undefined;
    const hint = "This service has no such plan: start it with aftereffect serve --plan FILE.";
    showMessage(findPart(this.root, "plan-problem"), plan === undefined ? hint : null);
    if (plan !== undefined) this.#show(plan);
    return true;
  }

  #show({ sentences, command, history, tables }) {
    fillList(findPart(this.root, "plan-sentences"), sentences);
    fillList(findPart(this.root, "plan-history"), history);
    showMessage(findPart(this.root, "plan-command"), command);
    const parts = resizeChildren(findPart(this.root, "plan-tables"), 2 * tables.length, makePart);
    tables.forEach(({ title, rows }, at) => {
      setText(parts[2 * at], title);
      const [head, body] = setAttributes(parts[2 * at + 1], { "aria-label": title }).firstElementChild.children;
      const cells = resizeChildren(head.firstElementChild, rows[0].length, () => make("th", { scope: "col" }));
      rows[0].forEach((text, cell) => setText(cells[cell], text));
      fillRows(body, rows.slice(1));
    });
  }
}

/** By turns a title, and a table that can be scrolled. */
function makePart(at) {
  if (at % 2 === 0) return make("p", { class: "soft" });
  const table = make("table", {}, make("thead", {}, make("tr")), make("tbody"));
  return make("div", { class: "scroll", tabindex: 0, role: "region" }, table);
}

function fillList(list, texts) {
  const items = resizeChildren(list, texts.length, () => make("li"));
  texts.forEach((text, at) => setText(items[at], text.replaceAll(" %", "\u00a0%"))); // no break there
}
