// The story beside the workspace: its steps, pause and speed; and what people can change in the fleet.

import { el, reconcile } from "./dom.js";

const panel = document.querySelector("#story");
const HOW = { coming: "not yet", now: "now", late: "takes longer than it should", done: "done" };
const MARKS = { coming: "○", now: "▶", late: "…", done: "✓" };
let parts = null;
let followed = "";
let current = "";

/** Draws the panel; `page.goTo` is asked to follow the story when the reader wants that. */
export function showStory(story, page) {
  document.querySelector("#open-story").hidden = !story;
  if (!story) return;
  parts ??= build(page);
  const isOver = story.steps.every((step) => step.how === "done");
  parts.play.textContent = story.is_playing ? "Pause" : "Play";
  parts.play.disabled = parts.next.disabled = isOver;
  parts.why.textContent = isOver ? "The story is over. The fleet runs on: try everything yourself." : story.why_paused;
  if (document.activeElement !== parts.speed) parts.speed.value = String(story.speed);
  reconcile(parts.steps, story.steps.map((step, number) => ({ key: String(number), sign: JSON.stringify(step), make: () => draw(step, page) })));
  reconcile(parts.levers, story.levers.map((lever) => ({ key: lever.name, sign: JSON.stringify(lever), make: () => drawLever(lever, page) })));
  follow(story, page);
  showCurrent(story);
}

/** The step that happens stays in sight, unless somebody works in the panel. */
function showCurrent({ steps }) {
  const number = steps.findLastIndex((one) => one.how !== "coming");
  if (String(number) === current || panel.contains(document.activeElement)) return;
  current = String(number);
  parts.steps.children[number]?.scrollIntoView({ block: "nearest" });
}

function build(page) {
  const ask = (body) => page.ask(body);
  const speed = el("select", { id: "speed", change: (event) => ask({ what: "speed", speed: Number(event.target.value) }) },
    [["0.5", "slow"], ["1", "normal"], ["2", "fast"], ["4", "very fast"]].map(([value, words]) => el("option", { value }, words)));
  const play = el("button", { type: "button", class: "press", "data-key": "story/play", click: () => ask({ what: play.textContent === "Pause" ? "pause" : "play" }) });
  const next = el("button", { type: "button", class: "press", "data-key": "story/next", click: () => ask({ what: "next" }) }, "Next step");
  const made = { play, next, speed, why: el("p", { class: "why", role: "status" }), steps: el("ol", { class: "steps" }), levers: el("div", { class: "levers" }) };
  panel.append(
    el("div", { class: "panel-head" }, el("h2", {}, "Story"), el("button", { type: "button", class: "plain", "aria-label": "Close the story", click: () => page.toggleStory(false) }, "✕")),
    el("div", { class: "controls" }, play, next, el("label", {}, "Speed ", speed)),
    el("label", { class: "follow" }, el("input", { type: "checkbox", id: "follow", checked: true }), " Show the channel where it happens"),
    made.why, made.steps,
    el("h3", {}, "Change the fleet"), made.levers,
    el("p", { class: "hint" }, "Bot and nodes are real programs: a pause holds the next step only, and their windows last 3 s whatever the speed is."));
  return made;
}

function draw(step, page) {
  const seconds = step.seconds === null ? "" : ` · ${Math.round(step.seconds)} s`;
  return el("li", { class: step.how, "aria-current": step.how === "now" ? "step" : null },
    el("span", { class: "mark", "aria-hidden": "true" }, MARKS[step.how]),
    el("div", {},
      el("p", { class: "title" }, step.title, el("span", { class: "how" }, ` (${HOW[step.how]}${seconds})`)),
      el("p", { class: "hint" }, step.look),
      step.channel && step.how !== "coming" && el("button", { type: "button", class: "plain", "data-key": `story/${step.title}`, click: () => page.goTo(step.channel) }, `Show #${step.channel}`)));
}

function drawLever(lever, page) {
  const [off, on] = lever.words;
  const words = lever.is_on ? on : off;
  return el("div", { class: "lever" }, el("span", {}, lever.about),
    el("button", { type: "button", class: "press", "data-key": `lever/${lever.name}`, "aria-label": `${words}: ${lever.about}`, click: () => page.ask({ what: "lever", lever: lever.name }) }, words));
}

function follow(story, page) {
  const step = story.steps.findLast((one) => one.how === "now" || one.how === "done");
  if (!step?.channel || step.channel === followed) return;
  followed = step.channel;
  if (document.querySelector("#follow").checked && !document.querySelector("dialog[open]")) page.goTo(step.channel, true);
}
