// The page: which view is shown, and how it is kept up to date.

import { Detail } from "./detail.js";
import { part, say } from "./dom.js";
import { Entrance } from "./entrance.js";
import { Loop, REST } from "./loop.js";
import { Overview } from "./overview.js";
import { Away, Locked, Problem, Service } from "./service.js";
import { time } from "./words.js";

const service = new Service();
const views = Object.fromEntries(["entrance", "overview", "detail"].map((name) => [name, part(document, name)]));
const overview = new Overview(views.overview);
const detail = new Detail(views.detail);
const entrance = new Entrance(views.entrance, (token) => {
  service.unlock(token);
  loop.now();
});
const pulse = part(document, "pulse");
const forget = part(document, "forget");
const loop = new Loop(refresh);

let shown = null;
let answered = null;

/** The experiment that the address names, or null for all of them. */
function chosen() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return location.hash.slice(1);
  }
}

function show(view) {
  const before = shown;
  shown = view;
  for (const [name, node] of Object.entries(views)) node.hidden = name !== view;
  return before;
}

/** Show what the address names; who came here by a link is at its title then. */
function go() {
  const name = chosen();
  if (shown === "overview" && name !== null) overview.leave(name);
  const before = show(name === null ? "overview" : "detail");
  document.title = `${name ?? "Experiments"} · aftereffect`;
  if (name !== null) detail.enter(name);
  if (before === null) return;
  if (name === null) overview.enter();
  else views.detail.querySelector("h1").focus({ preventScroll: true });
}

async function refresh(signal) {
  if (shown === "entrance" && !service.hasToken) return REST; // it is up to the visitor now
  try {
    if (shown === "entrance") await enter(signal);
    const well = await (chosen() === null ? overview : detail).refresh(service, signal);
    answered = new Date();
    beat("live", "Live");
    return well;
  } catch (error) {
    return signal.aborted || fail(error);
  } finally {
    forget.hidden = !service.hasToken;
  }
}

/** Behind the entrance nothing is shown until a token has opened it. */
async function enter(signal) {
  await service.names(signal);
  entrance.clear();
  go();
}

function fail(error) {
  if (error instanceof Locked) return lock(error);
  if (error instanceof Away) return away(error.message);
  if (!(error instanceof Problem)) console.error(error);
  beat("away", `Something is wrong, trying again: ${error.message}`);
  return false;
}

function lock({ message, wantsToken }) {
  const refused = service.hasToken;
  service.forget();
  overview.clear();
  detail.clear();
  show("entrance");
  document.title = "Token · aftereffect";
  beat("locked", "");
  const why = wantsToken ? "it is not valid, or was revoked." : message;
  entrance.open(refused ? `The token was refused: ${why}` : wantsToken ? "" : message);
  return REST;
}

function away(message) {
  const since = answered ? ` What you see is of ${time(answered)}.` : "";
  beat("away", `Service away, trying again.${message ? ` ${message}.` : ""}${since}`);
  return false;
}

/** How the service is doing; told to screen readers only when it changes. */
function beat(kind, text) {
  pulse.dataset.kind = kind;
  say(pulse, text);
}

forget.addEventListener("click", () => {
  service.forget();
  overview.clear();
  detail.clear();
  forget.hidden = true;
  loop.now();
});
window.addEventListener("hashchange", () => {
  if (shown !== "entrance") go();
  loop.now();
});

go();
loop.now();
