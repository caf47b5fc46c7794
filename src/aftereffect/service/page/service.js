// @ts-check
// Requests to the service; they only read. All addresses are relative, so the page works under any path.

const HERE = new URL("./", import.meta.url);
const KEY = `aftereffect token for ${HERE.pathname}`;
const UNAVAILABLE = [408, 429, 502, 503, 504];

/** The service or its storage does not answer: try again. */
export class Unavailable extends Error {}
/** The service refuses the request: it needs a token, or another one. */
export class AccessDenied extends Error {
  constructor(message, needsToken) {
    super(message);
    this.needsToken = needsToken;
  }
}
/** The service answers with an error that a repetition will not mend. */
export class Problem extends Error {}

export class Service {
  #token = recallToken();
  #plans = null;

  get hasToken() {
    return this.#token !== null;
  }

  /** Use a token, and store it for this tab. */
  useToken(token) {
    this.#token = token;
    this.#plans = null;
    storeToken(token);
  }

  forgetToken() {
    this.#token = this.#plans = null;
    storeToken(null);
  }

  fetchNames(signal) {
    return this.#get("v1/experiments", signal).then((answer) => answer.experiments);
  }

  /** Saved plans: they stay the same while the service runs. */
  async fetchPlans(signal) {
    this.#plans ??= (await this.#get("v1/plans", signal)).plans;
    return this.#plans;
  }

  fetchStatus(name, signal) {
    return this.#get(pathOf(name), signal);
  }

  fetchTimeline(name, pieces, signal) {
    return this.#get(`${pathOf(name)}/timeline?pieces=${pieces}`, signal, 60);
  }

  fetchLag(name, signal) {
    return this.#get(`${pathOf(name)}/lag`, signal, 60);
  }

  fetchResults(name, signal) {
    return this.#get(`${pathOf(name)}/results`, signal, 60);
  }

  /** The whole history as a CSV file. */
  fetchHistory(name, signal) {
    return this.#get(`${pathOf(name)}/export?format=csv`, signal, 600, (answer) => answer.blob());
  }

  /** `read` reads the body of a success; that of an error is always JSON. */
  async #get(path, signal, seconds = 15, read = readJson) {
    const headers = this.#token === null ? {} : { Authorization: `Bearer ${this.#token}` };
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]);
    let answer, body;
    try {
      answer = await fetch(new URL(path, HERE), { headers, signal: deadline, cache: "no-store" });
      body = await (answer.ok ? read : readJson)(answer);
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Unavailable("");
    }
    if (answer.ok && body !== null) return body;
    const message = body?.message ?? `The service answered ${answer.status} ${answer.statusText}`.trim();
    if (answer.status === 401 || answer.status === 403) throw new AccessDenied(message, answer.status === 401);
    if (UNAVAILABLE.includes(answer.status) || answer.ok) throw new Unavailable(message);
    throw new Problem(message);
  }
}

/** The body as JSON; null if it is something else. */
function readJson(answer) {
  return answer.json().catch((error) => (error instanceof SyntaxError ? null : Promise.reject(error)));
}

function pathOf(name) {
  // A browser reads these as steps in the path, however they are escaped.
  if (name === "." || name === "..") {
    throw new Problem(`An experiment named “${name}” cannot be shown: an address cannot contain this name.`);
  }
  return `v1/experiments/${encodeURIComponent(name)}`;
}

/** The token of this tab; null if there is none, or the browser forbids storage. */
function recallToken() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function storeToken(token) {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // Then the token lasts until the page is loaded again.
  }
}
