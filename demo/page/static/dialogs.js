// The app's dialogs, Slack's question before a dangerous button, and what went wrong.

import { drawBlocks } from "./blocks.js";
import { byKey, el } from "./dom.js";
import { textOf } from "./mrkdwn.js";

const modal = document.querySelector("#modal");
const confirmation = document.querySelector("#confirm");
const drafts = new Map(); // what was filled in, by view and block: an app may draw its dialog anew meanwhile
let shown = { id: null, sign: null };
let openerKey = null;
let page = null;

/** Shows the snapshot's dialog, or closes what is open. */
export function showModal(view, current) {
  page = current;
  if (!view) return hide();
  const sign = JSON.stringify([view.hash, view.errors]);
  if (view.id === shown.id && sign === shown.sign) return;
  if (!modal.open) openerKey = document.activeElement?.closest("[data-key]")?.dataset.key ?? null;
  const isNew = view.id !== shown.id;
  const hadFocus = modal.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
  shown = { id: view.id, sign };
  modal.replaceChildren(...content(view));
  if (!modal.open) modal.showModal();
  const wrong = modal.querySelector("[aria-invalid=true], .error");
  const first = modal.querySelector(".modal-body :is(input, select, textarea), .modal-body .press") ?? modal.querySelector("#modal-title");
  (wrong ? (wrong.matches(".error") ? first : wrong) : (!isNew && byKey(hadFocus)) || first).focus();
}

export function hide() {
  if (!modal.open) return;
  modal.close();
  modal.replaceChildren();
  drafts.delete(shown.id);
  shown = { id: null, sign: null };
  (byKey(openerKey) ?? document.querySelector("#place")).focus();
}

function content(view) {
  if (!drafts.has(view.id)) drafts.set(view.id, new Map());
  const form = { drafts: drafts.get(view.id), errors: view.errors };
  const env = { ...page.env({ view: view.id }, `view/${view.id}`, 3), form };
  const submit = async (event) => {
    event.preventDefault();
    const send = event.target.querySelector("[type=submit]");
    send?.setAttribute("aria-disabled", "true");
    await page.send({ deed: "submit", view: view.id, values: Object.fromEntries(form.drafts) });
    send?.removeAttribute("aria-disabled");
  };
  const close = () => page.send({ deed: "close", view: view.id });
  return [
    el("form", { class: "modal-form", novalidate: true, submit },
      el("div", { class: "modal-head" },
        el("h2", { id: "modal-title", tabindex: -1 }, view.title),
        el("button", { type: "button", class: "plain", "aria-label": "Close the dialog", click: close }, "✕")),
      el("div", { class: "modal-body", tabindex: 0, role: "group", "aria-labelledby": "modal-title" }, drawBlocks(view.blocks, env)),
      el("div", { class: "modal-foot" },
        el("button", { type: "button", class: "press", "data-key": `view/${view.id}/close`, click: close }, view.close ?? "Close"),
        view.submit && el("button", { type: "submit", class: "press primary", "data-key": `view/${view.id}/submit` }, view.submit))),
  ];
}

modal.addEventListener("cancel", (event) => {
  event.preventDefault();
  if (shown.id) page.send({ deed: "close", view: shown.id });
});

/** Slack's own question, from a button's `confirm`. */
export function ask(question, context) {
  const opener = document.activeElement?.closest("[data-key]")?.dataset.key;
  return new Promise((resolve) => {
    const answer = (said) => () => { confirmation.close(said); };
    confirmation.replaceChildren(
      el("h2", { id: "confirm-title" }, textOf(question.title, context)),
      el("p", { id: "confirm-text" }, textOf(question.text, context)),
      el("div", { class: "modal-foot" },
        el("button", { type: "button", class: "press", click: answer("no") }, textOf(question.deny, context)),
        el("button", { type: "button", class: `press ${question.style ?? "primary"}`, click: answer("yes") }, textOf(question.confirm, context))));
    confirmation.returnValue = "no";
    confirmation.addEventListener("close", () => {
      (byKey(opener) ?? document.querySelector("#place")).focus();
      resolve(confirmation.returnValue === "yes");
    }, { once: true });
    confirmation.showModal();
    confirmation.querySelector(".press").focus(); // on "no": a second Enter must not approve
  });
}

/** A sentence about what went wrong, where it can be seen and heard. */
export function tellFailure(words) {
  const close = () => toast.remove();
  const toast = el("div", { class: "toast", role: "alert" }, el("span", {}, words), el("button", { type: "button", class: "plain", "aria-label": "Close this message", click: close }, "✕"));
  document.querySelectorAll(".toast").forEach((one) => one.remove());
  (modal.open ? modal : document.body).append(toast);
}
