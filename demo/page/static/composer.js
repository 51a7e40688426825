// The message box: words go to the channel, what begins with / goes to the app.

import { el } from "./dom.js";

const box = document.querySelector("#box");
const list = document.querySelector("#suggestions");
let page = null;
let active = -1;

export function usePage(current) {
  page = current;
  const { channel } = page;
  const isClosed = !channel || channel.is_archived;
  box.disabled = isClosed;
  box.placeholder = !channel ? "" : channel.is_archived ? `#${channel.name} is archived` : `Message ${channel.is_im ? channel.name : `#${channel.name}`}, or / for a command`;
}

document.querySelector("#composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = box.value.trim();
  if (!text || !page?.channel) return;
  box.value = "";
  suggest();
  const failure = await page.send(asDeed(text, page.channel.id));
  if (failure && !box.value) box.value = text;
});

function asDeed(text, channel) {
  const found = /^(\/\S+)\s*([\s\S]*)$/.exec(text);
  return found ? { deed: "command", channel, name: found[1], words: found[2] } : { deed: "say", channel, words: text };
}

box.addEventListener("input", suggest);
box.addEventListener("focus", suggest);
box.addEventListener("blur", () => setTimeout(hide, 150)); // a press on a suggestion comes after this
box.addEventListener("keydown", (event) => {
  const options = [...list.children];
  if (list.hidden || !options.length) return;
  if (event.key === "ArrowDown") mark((active + 1) % options.length);
  else if (event.key === "ArrowUp") mark((active - 1 + options.length) % options.length);
  else if (event.key === "Escape") hide();
  else if ((event.key === "Enter" || event.key === "Tab") && active >= 0) take(options[active].dataset.command);
  else return;
  event.preventDefault();
});

function suggest() {
  const typed = /^\/\S*$/.test(box.value) ? box.value : null;
  const found = typed === null || !page ? [] : page.app.commands.filter((one) => one.command.startsWith(typed));
  const exact = found.length === 1 && found[0].command === typed;
  if (!found.length || exact) return hide();
  list.replaceChildren(...found.map((one, number) =>
    el("li", { role: "option", id: `suggestion-${number}`, "aria-selected": "false", "data-command": one.command, mousedown: (event) => { event.preventDefault(); take(one.command); } },
      el("strong", {}, one.command), one.usage_hint && el("span", { class: "usage" }, ` ${one.usage_hint}`), el("span", { class: "hint" }, one.description))));
  list.hidden = false;
  box.setAttribute("aria-expanded", "true");
  mark(-1);
}

function mark(number) {
  active = number;
  [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === number)));
  if (number < 0) return box.removeAttribute("aria-activedescendant");
  box.setAttribute("aria-activedescendant", `suggestion-${number}`);
  list.children[number].scrollIntoView({ block: "nearest" });
}

function take(command) {
  box.value = `${command} `;
  hide();
  box.focus();
}

function hide() {
  list.hidden = true;
  active = -1;
  box.setAttribute("aria-expanded", "false");
  box.removeAttribute("aria-activedescendant");
}
