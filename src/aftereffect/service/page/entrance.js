// Asking for a token. It is never part of an address.

import { part, say } from "./dom.js";

/** What can be sent in a header at all. */
const SENDABLE = /^[\x21-\x7e]+$/;

export class Entrance {
  constructor(root, entered) {
    this.root = root;
    this.field = root.querySelector("input");
    root.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      const token = this.field.value.trim();
      if (SENDABLE.test(token)) entered(token);
      else this.refuse("This is no token: it is letters, digits, “-” and “_”, beginning with ae_.");
    });
  }

  /** Ask for one; `why` says what was wrong with the one that was given. */
  open(why) {
    this.refuse(why);
    if (!this.root.contains(document.activeElement)) this.field.focus();
  }

  refuse(why) {
    say(part(this.root, "refused"), why);
    if (why) this.field.setAttribute("aria-invalid", "true");
    else this.field.removeAttribute("aria-invalid");
  }

  clear() {
    this.field.value = "";
    this.refuse("");
  }
}
