// The service, as the page talks to it: it only reads. All addresses are relative, so that it works under any path.

const HERE = new URL("./", import.meta.url);
const KEY = `aftereffect token for ${HERE.pathname}`;
const AWAY = [408, 429, 502, 503, 504];

/** The service does not answer, or its storage does not: try again. */
export class Away extends Error {}
/** It wants a token, or another one; or it is refused for another reason. */
export class Locked extends Error {
  constructor(message, wantsToken) {
    super(message);
    this.wantsToken = wantsToken;
  }
}
/** It answers that something is wrong, and trying again soon will not help. */
export class Problem extends Error {}

export class Service {
  #token = kept();

  get hasToken() {
    return this.#token !== null;
  }

  /** Keep a token, in this tab alone. */
  unlock(token) {
    this.#token = token;
    remember(token);
  }

  forget() {
    this.#token = null;
    remember(null);
  }

  names(signal) {
    return this.#get("v1/experiments", signal).then((answer) => answer.experiments);
  }

  status(name, signal) {
    return this.#get(address(name), signal);
  }

  timeline(name, pieces, signal) {
    return this.#get(`${address(name)}/timeline?pieces=${pieces}`, signal, 60);
  }

  lag(name, signal) {
    return this.#get(`${address(name)}/lag`, signal, 60);
  }

  async #get(path, signal, seconds = 15) {
    const headers = this.#token === null ? {} : { Authorization: `Bearer ${this.#token}` };
    const patience = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]);
    let answer, body;
    try {
      answer = await fetch(new URL(path, HERE), { headers, signal: patience, cache: "no-store" });
      body = await answer.json().catch((error) => (error instanceof SyntaxError ? null : Promise.reject(error)));
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Away("");
    }
    if (answer.ok && body !== null) return body;
    const message = body?.message ?? `It answers ${answer.status} ${answer.statusText}`.trim();
    if (answer.status === 401 || answer.status === 403) throw new Locked(message, answer.status === 401);
    if (AWAY.includes(answer.status) || answer.ok) throw new Away(message);
    throw new Problem(message);
  }
}

function address(name) {
  // A browser takes these for steps in the path, however they are written.
  if (name === "." || name === "..") {
    throw new Problem(`An experiment called “${name}” cannot be shown here: the name is no part of an address.`);
  }
  return `v1/experiments/${encodeURIComponent(name)}`;
}

/** What the tab remembers; nothing where a browser forbids it. */
function kept() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(token) {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // Then it lasts until the page is loaded again.
  }
}
