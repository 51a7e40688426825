// Puts the page together: who acts, which channel is shown, and the snapshot that is drawn.

import { listen, post } from "./api.js";
import { drawBlocks } from "./blocks.js";
import { usePage } from "./composer.js";
import { ask, hide, showModal, tellFailure } from "./dialogs.js";
import { el, reconcile } from "./dom.js";
import { channelItems, threadItems } from "./messages.js";
import { showStory } from "./story.js";

const $ = (selector) => document.querySelector(selector);
const HOME = "home";
const state = { as: "alice", place: "", thread: "", snapshot: null, dismissed: new Set(), seen: new Map(), heard: null };
let stop = () => {};
let isPressing = false;

// --- what the parts are given ----------------------------------------------------------------------------------------

function page() {
  const { snapshot } = state;
  return {
    me: snapshot.me,
    channel: channel(),
    ephemerals: snapshot.ephemerals.filter((one) => !state.dismissed.has(one.ts)),
    app: { commands: snapshot.commands, shortcuts: snapshot.shortcuts, sign: snapshot.shortcuts.length },
    env, send, openThread, goTo, toggleStory,
    dismiss: (ts) => { state.dismissed.add(ts); draw(); $("#box").focus(); },
    ask: async (body) => tell(await post("/story", state.as, body)),
  };
}

/** Where blocks stand (`place`), what they may do there, and stable names for what can have the focus. */
function env(place, name, level) {
  const { me, names, people, channels } = state.snapshot;
  const context = { me: me.id, tz: me.tz, names };
  const counts = new Map();
  const key = ({ action_id: action = "" }) => {
    counts.set(action, (counts.get(action) ?? 0) + 1);
    return `${name}/${action}/${counts.get(action)}`;
  };
  return { place, level, context, people, channels, key, send, ask: (question) => ask(question, context) };
}

async function send(deed) {
  return tell(await post("/deed", state.as, deed));
}

function tell(failure) {
  if (failure) tellFailure(failure);
  return failure;
}

function channel() {
  return state.snapshot?.channels.find((one) => one.id === state.place) ?? null;
}

function named(name) {
  return state.snapshot.channels.find((one) => one.id === name || (!one.is_im && one.name === name));
}

// --- going somewhere -------------------------------------------------------------------------------------------------

/** `name`: of a channel, its id, or "home". `byItself`: nobody pressed anything, so the focus stays. */
function goTo(name, byItself = false) {
  const found = named(name);
  state.place = found ? found.id : name;
  state.thread = "";
  if (!byItself) toggle("#places", "#open-places", false);
  if (name === HOME) send({ deed: "home" });
  remember();
  draw(true);
  if (!byItself) $("#place").focus();
}

function openThread(ts) {
  state.thread = ts;
  remember();
  draw();
  $("#thread h2")?.focus();
}

function closeThread() {
  const ts = state.thread;
  state.thread = "";
  remember();
  draw();
  ($(`[data-key="thread/${CSS.escape(ts)}"]`) ?? $("#place")).focus();
}

function remember() {
  const where = [state.as, state.place, state.thread].filter(Boolean).map(encodeURIComponent).join("/");
  history.replaceState(null, "", `#${where}`);
}

function actAs(name) {
  stop();
  hide();
  Object.assign(state, { as: name, snapshot: null, heard: null });
  stop = listen(name, take, lost);
}

function take(snapshot) {
  const isFirst = state.snapshot === null;
  state.snapshot = snapshot;
  snapshot.me.tz = knownZone(snapshot.me.tz);
  $("#lost").hidden = true;
  if (isFirst && state.place !== HOME) state.place = (named(state.place) ?? snapshot.channels[0])?.id ?? HOME;
  if (isFirst && state.place === HOME) send({ deed: "home" });
  announce();
  if (!isPressing) draw(isFirst);
  if (isFirst) remember();
}

/** A person may have none, or one that this browser does not know. */
function knownZone(zone) {
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: zone });
    return zone;
  } catch {
    return "UTC";
  }
}

function lost() {
  $("#lost").replaceChildren("The connection to the demo is lost. It has ended, or was started again. ",
    el("button", { type: "button", class: "press", click: () => location.reload() }, "Load the page again"));
  $("#lost").hidden = false;
}

// --- drawing ---------------------------------------------------------------------------------------------------------

function draw(fromTheEnd = false) {
  const current = page();
  drawAs();
  drawPlaces(current);
  drawHead(current);
  drawMessages(current, fromTheEnd);
  drawThread(current);
  usePage(current);
  showStory(state.snapshot.story, current);
  showModal(state.snapshot.modal, current);
}

function drawAs() {
  const { people } = state.snapshot;
  reconcile($("#as"), people.map((one) => ({
    key: one.name, sign: one.note, make: () => el("option", { value: one.name }, one.note ? `${one.real_name} (${one.note})` : one.real_name),
  })));
  $("#as").value = state.as;
}

function drawPlaces(current) {
  const { channels } = state.snapshot;
  const group = (title, places) => el("section", {}, el("h2", {}, title), el("ul", {}, places));
  const direct = channels.filter((one) => one.is_im);
  const rows = channels.filter((one) => !one.is_im).map((one) => placeRow(one.id, `# ${one.name}`, one));
  const apps = [placeRow(HOME, "gpu-oncall: Home"), ...direct.map((one) => placeRow(one.id, "gpu-oncall: messages", one))];
  const sign = JSON.stringify([state.as, state.place, channels.map((one) => [one.id, one.is_archived, unread(one)]), state.snapshot.sockets]);
  const make = () => el("div", {}, group("Channels", rows), group("Apps", apps),
    el("p", { class: "hint" }, state.snapshot.sockets ? `The app is connected (${state.snapshot.sockets} sockets).` : "The app is not connected yet."));
  if (current.channel) state.seen.set(`${state.as}/${state.place}`, current.channel.messages.at(-1)?.ts ?? "0");
  reconcile($("#places"), [{ key: "all", sign, make }]);
}

function placeRow(id, words, one) {
  const count = one ? unread(one) : 0;
  const kind = one?.is_archived ? "archived" : one?.is_private ? "private" : "";
  const label = count ? `${words}, ${count} new` : null;
  return el("li", {}, el("button", {
    type: "button", "data-key": `place/${id}`, class: count ? "unread" : null, "aria-label": label,
    "aria-current": id === state.place ? "page" : null, click: () => goTo(id),
  }, words, kind && el("span", { class: "hint" }, kind), count > 0 && el("span", { class: "count" }, count)));
}

function unread(one) {
  if (one.id === state.place) return 0;
  const since = Number(state.seen.get(`${state.as}/${one.id}`) ?? 0);
  return one.messages.filter((message) => Number(message.ts) > since && message.by.is_app && (!message.thread_ts || message.thread_ts === message.ts)).length;
}

function drawHead({ channel: shown, me }) {
  const zone = `Times in ${me.real_name}'s time zone, ${me.tz}.`;
  $("#place").textContent = shown ? (shown.is_im ? "gpu-oncall: messages" : `# ${shown.name}`) : "gpu-oncall: Home";
  $("#about").textContent = shown?.left_out ? `${zone} ${shown.left_out} older messages are not shown.` : zone;
  $("#composer").hidden = !shown;
}

function drawMessages(current, fromTheEnd) {
  const list = $("#messages");
  const wasAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  const items = current.channel ? channelItems(current.channel, current) : [homeItem()];
  if (!items.length) items.push({ key: "empty", sign: "", make: () => el("p", { class: "empty" }, "Nothing was said here yet.") });
  reconcile(list, items);
  if (current.channel && (wasAtEnd || fromTheEnd)) list.scrollTop = list.scrollHeight;
}

function homeItem() {
  const { home, me } = state.snapshot;
  const make = () => el("div", { class: "home" }, home ? drawBlocks(home.blocks, env({ view: home.id }, "home", 2)) : el("p", { class: "empty" }, "The app has not drawn its home yet."));
  return { key: "home", sign: `${me.id}|${home?.hash}`, make };
}

function drawThread(current) {
  const panel = $("#thread");
  const items = current.channel && state.thread ? threadItems(current.channel, state.thread, current) : null;
  panel.hidden = !items;
  document.body.classList.toggle("with-thread", Boolean(items));
  if (!items) return panel.replaceChildren();
  if (panel.dataset.ts !== state.thread || !panel.firstChild) {
    panel.dataset.ts = state.thread;
    panel.replaceChildren(...threadParts());
  }
  reconcile(panel.querySelector(".replies-list"), items);
}

function threadParts() {
  const input = el("input", { id: "reply", type: "text", placeholder: "Reply…" });
  const submit = async (event) => {
    event.preventDefault();
    const words = input.value.trim();
    if (!words) return;
    if (words.startsWith("/")) return tell("Slack takes no commands in threads: type it in the channel's message box.");
    input.value = "";
    await send({ deed: "say", channel: state.place, words, thread_ts: state.thread });
  };
  return [
    el("div", { class: "panel-head" }, el("h2", { tabindex: -1 }, "Thread"),
      el("button", { type: "button", class: "plain", "aria-label": "Close the thread", click: closeThread }, "✕")),
    el("div", { class: "replies-list", role: "region", "aria-label": "Replies", tabindex: 0 }),
    el("form", { class: "composer", autocomplete: "off", submit }, el("label", { class: "hidden", for: "reply" }, "Reply in the thread"), input, el("button", { type: "submit" }, "Send")),
  ];
}

// --- what a screen reader is told: the text of each message, which holds all its facts --------------------------------

function announce() {
  const { snapshot } = state;
  const places = snapshot.channels.map((one) => [one.is_im ? "gpu-oncall" : `#${one.name}`, one.messages]);
  const all = [...places, ["Only you see", snapshot.ephemerals]];
  const now = new Map(all.flatMap(([where, messages]) => messages.map((one) => [`${one.channel}/${one.ts}/${one.version}`, `${where}: ${spoken(one)}`])));
  if (state.heard) {
    const fresh = [...now].filter(([key]) => !state.heard.has(key)).map(([, words]) => words);
    if (fresh.length) $("#news").textContent = fresh.slice(-3).join(". ");
  }
  state.heard = new Set(now.keys());
}

function spoken({ text }) {
  const { names } = state.snapshot;
  return text.slice(0, 400).replace(/<([^<>]+)>/g, (_, inside) => {
    const [target, label] = inside.split("|");
    return names[target.replace(/^(@|#|!subteam\^)/, "")] ?? label ?? target;
  }).replace(/[*`]/g, "").replace(/&(lt|gt|amp);/g, (_, name) => ({ lt: "<", gt: ">", amp: "&" })[name]);
}

// --- the frame -------------------------------------------------------------------------------------------------------

function toggle(panel, opener, isOpen) {
  $(panel).classList.toggle("open", isOpen);
  $(opener).setAttribute("aria-expanded", String(isOpen));
}

function toggleStory(isOpen) {
  $("#story").hidden = !isOpen;
  $("#open-story").setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) $("#open-story").focus();
}

$("#skip").addEventListener("click", (event) => { event.preventDefault(); $("#box").focus(); });
$("#as").addEventListener("change", (event) => actAs(event.target.value));
$("#open-places").addEventListener("click", () => toggle("#places", "#open-places", !$("#places").classList.contains("open")));
$("#open-story").addEventListener("click", () => toggleStory($("#story").hidden));
$("#theme").addEventListener("click", () => {
  const themes = ["system", "light", "dark"];
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % themes.length];
  document.documentElement.dataset.theme = next;
  $("#theme").textContent = `Theme: ${next}`;
});
// A button that is drawn anew while it is held down would lose its click: what is new waits until it is let go.
for (const down of ["mousedown", "keydown"]) addEventListener(down, ({ button, target }) => {
  if (!button && target.closest?.("button")) isPressing = true;
});
for (const up of ["mouseup", "keyup", "blur"]) addEventListener(up, () => {
  if (isPressing) setTimeout(() => { isPressing = false; if (state.snapshot) draw(); });  // the click comes first
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open], [popover]:popover-open")) return;
  if (state.thread) closeThread();
  else toggle("#places", "#open-places", false);
});

const [as, place, thread] = location.hash.slice(1).split("/").map(decodeURIComponent);
Object.assign(state, { as: as || "alice", place: place ?? "", thread: thread ?? "" });
if (window.innerWidth >= 1100) { $("#story").hidden = false; $("#open-story").setAttribute("aria-expanded", "true"); }
actAs(state.as);
