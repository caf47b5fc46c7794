// @ts-check
// The page: chooses the view and keeps it up to date.

import { Detail } from "./detail.js";
import { findPart, setText } from "./dom.js";
import { SignIn } from "./sign-in.js";
import { Loop, REST } from "./loop.js";
import { Overview } from "./overview.js";
import { PlanView, readDigest } from "./plans.js";
import { AccessDenied, Problem, Service, Unavailable } from "./service.js";
import { formatTime } from "./format.js";

const service = new Service();
const names = ["sign-in", "overview", "detail", "plan"];
const views = Object.fromEntries(names.map((name) => [name, findPart(document, name)]));
const overview = new Overview(views.overview);
const detail = new Detail(views.detail);
const plan = new PlanView(views.plan);
const signIn = new SignIn(views["sign-in"], (token) => {
  service.useToken(token);
  loop.now();
});
const pulse = findPart(document, "pulse");
const forget = findPart(document, "forget");
const loop = new Loop(refresh);

let shown = null;
let answered = null;

/** The experiment, or the plan with its prefix, that the address names; null for all of them. */
function readChosenName() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return location.hash.slice(1);
  }
}

function showView(view) {
  const before = shown;
  shown = view;
  for (const [name, node] of Object.entries(views)) node.hidden = name !== view;
  return before;
}

/** Show what the address names; after a link was followed, the title of the view has the focus. */
function showChosen() {
  const name = readChosenName();
  if (shown === "overview" && name !== null) overview.leave(name);
  const digest = readDigest(name);
  const view = name === null ? "overview" : digest === null ? "detail" : "plan";
  const before = showView(view);
  document.title = `${digest === null ? (name ?? "Experiments") : "Plan"} · aftereffect`;
  if (view === "detail") detail.enter(name);
  if (view === "plan") plan.enter(digest);
  if (before === null) return;
  if (view === "overview") overview.enter();
  else views[view].querySelector("h1").focus({ preventScroll: true });
}

async function refresh(signal) {
  if (shown === "sign-in" && !service.hasToken) return REST; // wait for the visitor
  try {
    if (shown === "sign-in") await leaveSignIn(signal);
    const name = readChosenName();
    const view = name === null ? overview : readDigest(name) === null ? detail : plan;
    const well = await view.refresh(service, signal);
    answered = new Date();
    showPulse("live", "Live");
    return well;
  } catch (error) {
    return signal.aborted || handleError(error);
  } finally {
    forget.hidden = !service.hasToken;
  }
}

/** Leave the form, after the service has accepted the token. */
async function leaveSignIn(signal) {
  await service.fetchNames(signal);
  signIn.clear();
  showChosen();
}

function handleError(error) {
  if (error instanceof AccessDenied) return showSignIn(error);
  if (error instanceof Unavailable) return reportUnavailable(error.message);
  if (!(error instanceof Problem)) console.error(error);
  showPulse("unavailable", `An error occurred; trying again: ${error.message}`);
  return false;
}

function showSignIn({ message, needsToken }) {
  const refused = service.hasToken;
  service.forgetToken();
  [overview, detail, plan].forEach((view) => view.clear());
  showView("sign-in");
  document.title = "Token · aftereffect";
  showPulse("locked", "");
  const why = needsToken ? "it is not valid, or it was revoked." : message;
  signIn.open(refused ? `The token was refused: ${why}` : needsToken ? "" : message);
  return REST;
}

function reportUnavailable(message) {
  const since = answered ? ` Last answer at ${formatTime(answered)}.` : "";
  showPulse("unavailable", `The service does not answer; trying again.${message ? ` ${message}.` : ""}${since}`);
  return false;
}

/** Show the state of the connection; screen readers announce it only when it changes. */
function showPulse(kind, text) {
  pulse.dataset.kind = kind;
  setText(pulse, text);
}

forget.addEventListener("click", () => {
  service.forgetToken();
  [overview, detail, plan].forEach((view) => view.clear());
  forget.hidden = true;
  loop.now();
});
window.addEventListener("hashchange", () => {
  if (shown !== "sign-in") showChosen();
  loop.now();
});

showChosen();
loop.now();
