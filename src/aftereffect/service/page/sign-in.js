// @ts-check
// The form that asks for a token. A token is never part of an address.

import { findPart, setText } from "./dom.js";

/** Characters that a header can have. */
const SENDABLE = /^[\x21-\x7e]+$/;

export class SignIn {
  constructor(root, onToken) {
    this.root = root;
    this.field = root.querySelector("input");
    root.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      const token = this.field.value.trim();
      if (SENDABLE.test(token)) onToken(token);
      else this.refuse("This is not a token. A token begins with ae_ and contains letters, digits, “-” and “_”.");
    });
  }

  /** Ask for a token; `why` says what was wrong with the last one. */
  open(why) {
    this.refuse(why);
    if (!this.root.contains(document.activeElement)) this.field.focus();
  }

  refuse(why) {
    setText(findPart(this.root, "refused"), why);
    if (why) this.field.setAttribute("aria-invalid", "true");
    else this.field.removeAttribute("aria-invalid");
  }

  clear() {
    this.field.value = "";
    this.refuse("");
  }
}
