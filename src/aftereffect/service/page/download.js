// @ts-check
// The button that saves the history. A link could not send the token, which is never part of an address.

import { findPart, make, setText, showMessage } from "./dom.js";

const LABEL = "Download the history (CSV)";
/** Milliseconds after which the browser may forget the file. */
const RELEASE_AFTER = 60_000;

export class Download {
  #service = null;
  #name = null;
  #running = null;

  constructor(root) {
    this.button = findPart(root, "download");
    this.problem = findPart(root, "download-problem");
    this.button.addEventListener("click", () => this.#save());
    this.clear();
  }

  /** Offer the history of an experiment. */
  offer(service, name) {
    this.#service = service;
    this.#name = name;
    this.button.hidden = false;
  }

  clear() {
    this.#running?.abort();
    this.#running = this.#name = null;
    this.button.hidden = true;
    this.#rest();
    showMessage(this.problem, null);
  }

  async #save() {
    if (this.#running) return;
    const running = (this.#running = new AbortController());
    const name = this.#name;
    setText(this.button, "Reading the history …");
    this.button.setAttribute("aria-busy", "true");
    showMessage(this.problem, null);
    try {
      saveAs(await this.#service.fetchHistory(name, running.signal), `${name}.csv`);
    } catch (error) {
      if (running.signal.aborted) return; // another experiment is shown
      showMessage(this.problem, `The download failed. ${error.message || "The service does not answer."}`);
    } finally {
      if (this.#running === running) {
        this.#running = null;
        this.#rest();
      }
    }
  }

  #rest() {
    setText(this.button, LABEL);
    this.button.removeAttribute("aria-busy");
  }
}

function saveAs(file, name) {
  const address = URL.createObjectURL(file);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), RELEASE_AFTER);
}
