// A menu that hangs on a button: arrow keys move, Escape gives the focus back.

import { byKey, el } from "./dom.js";

/** `items`: {words, about, pick}. Inside an open dialog it belongs to the dialog, since all else is inert. */
export function openMenu(opener, items) {
  const key = opener.dataset.key;
  const menu = el("div", { class: "menu", role: "menu", popover: "auto", "aria-label": opener.getAttribute("aria-label") },
    items.map(({ words, about, pick }) =>
      el("button", { type: "button", role: "menuitem", tabindex: -1, click: () => { close(true); pick(); } },
        words, about && el("span", { class: "hint" }, about))));
  (opener.closest("dialog") ?? document.body).append(menu);
  menu.addEventListener("keydown", move);
  menu.addEventListener("toggle", (event) => { if (event.newState === "closed") gone(); });
  opener.setAttribute("aria-expanded", "true");
  menu.showPopover();
  place(menu, opener);
  menu.firstElementChild.focus();

  function close(withFocus) {
    menu.hidePopover();
    if (withFocus) (byKey(key) ?? opener).focus();
  }

  function gone() {
    (byKey(key) ?? opener).setAttribute("aria-expanded", "false");
    menu.remove();
  }

  function move(event) {
    const all = [...menu.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) all[to].focus();
    else if (event.key === "Escape" || event.key === "Tab") close(true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function place(menu, opener) {
  const at = opener.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const below = at.bottom + height + 8 < window.innerHeight;
  menu.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - width - 8))}px`;
  menu.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`;
}
