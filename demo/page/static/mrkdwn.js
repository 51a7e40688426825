// Slack's mrkdwn and plain text as elements.

import { el } from "./dom.js";

const FENCE = /```([\s\S]*?)```/;
const INLINE = new RegExp(
  [
    "`([^`\\n]+)`", // 1 code
    "<([^<>\\n]+)>", // 2 entity
    ":([a-z0-9_+-]+):", // 3 emoji
    "(?<![\\w*])\\*(\\S(?:[^*\\n]*?\\S)?)\\*(?![\\w*])", // 4 bold
    "(?<![\\w_])_(\\S(?:[^_\\n]*?\\S)?)_(?![\\w_])", // 5 italic
    "(?<![\\w~])~(\\S(?:[^~\\n]*?\\S)?)~(?![\\w~])", // 6 strike
  ].join("|"),
);
const EMOJI = {
  white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌", warning: "⚠️", hourglass_flowing_sand: "⏳", hourglass: "⌛",
  red_circle: "🔴", large_green_circle: "🟢", large_yellow_circle: "🟡", white_circle: "⚪", zzz: "💤", bell: "🔔",
  no_bell: "🔕", eyes: "👀", rotating_light: "🚨", lock: "🔒", arrows_counterclockwise: "🔄", no_entry: "⛔",
};

/** A text object. `context`: names by id, the reader's id and time zone. */
export function textOf(object, context) {
  if (!object) return document.createDocumentFragment();
  if (typeof object === "string") return mrkdwn(object, context);
  return object.type === "plain_text" ? plain(object.text, object.emoji !== false) : mrkdwn(object.text, context);
}

export function plain(text, withEmoji = false) {
  const shown = withEmoji ? text.replace(/:([a-z0-9_+-]+):/g, (whole, name) => EMOJI[name] ?? whole) : text;
  return fragment(lines(shown));
}

export function mrkdwn(text, context) {
  const found = FENCE.exec(text);
  if (!found) return fragment(paragraphs(text, context));
  const before = text.slice(0, found.index).replace(/\n$/, "");
  const after = text.slice(found.index + found[0].length).replace(/^\n/, "");
  const fence = el("pre", { tabindex: 0 }, unescape(found[1].replace(/^\n|\n$/g, "")));
  return fragment([before && mrkdwn(before, context), fence, after && mrkdwn(after, context)]);
}

function paragraphs(text, context) {
  const parts = [];
  let quote = null;
  for (const line of text.split("\n")) {
    const quoted = /^(?:>|&gt;) ?(.*)$/.exec(line);
    if (quoted) {
      if (!quote) parts.push((quote = el("blockquote")));
      else quote.append(el("br"));
      quote.append(...inline(quoted[1], context));
      continue;
    }
    if (parts.length && !quote) parts.push(el("br"));
    quote = null;
    parts.push(...inline(line, context));
  }
  return parts;
}

function inline(text, context) {
  const parts = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    if (found.index) parts.push(unescape(rest.slice(0, found.index)));
    parts.push(inlinePart(found, context));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest) parts.push(unescape(rest));
  return parts;
}

function inlinePart([whole, code, entity, emoji, bold, italic, strike], context) {
  if (code !== undefined) return el("code", {}, unescape(code));
  if (entity !== undefined) return entityOf(entity, context);
  if (emoji !== undefined) return emojiOf(emoji) ?? whole;
  if (bold !== undefined) return el("strong", {}, inline(bold, context));
  if (italic !== undefined) return el("em", {}, inline(italic, context));
  return el("s", {}, inline(strike, context));
}

export function emojiOf(name) {
  return EMOJI[name] ? el("span", { role: "img", "aria-label": name.replaceAll("_", " ") }, EMOJI[name]) : null;
}

function entityOf(entity, context) {
  const bar = entity.indexOf("|");
  const target = bar < 0 ? entity : entity.slice(0, bar);
  const label = bar < 0 ? "" : unescape(entity.slice(bar + 1));
  if (target.startsWith("!date^")) return dateOf(target, label, context);
  if (target.startsWith("!subteam^")) return mention(context.names[target.slice(9)] ?? (label || target), false);
  if (target.startsWith("!")) return mention(label || `@${target.slice(1)}`, true);
  if (/^[@#]/.test(target)) {
    const id = target.slice(1);
    return mention(context.names[id] ?? target[0] + (label || id), id === context.me);
  }
  return link(unescape(target), label);
}

export function mention(name, isMine) {
  return el("span", { class: isMine ? "mention mine" : "mention" }, name);
}

/** Only what a browser may open without harm is a link. */
export function link(url, label) {
  const isSafe = /^(https?:\/\/|mailto:)/i.test(url);
  const words = label || url;
  return isSafe ? el("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, words) : `${words} (${url})`;
}

function dateOf(target, fallback, context) {
  const [, seconds, format, url] = target.split("^");
  const at = new Date(Number(seconds) * 1000);
  if (Number.isNaN(at.getTime())) return fallback;
  const words = (format ?? "{date} {time}").replace(/\{(\w+)\}/g, (whole, name) => DATES[name]?.(at, context.tz) ?? whole);
  const time = el("time", { datetime: at.toISOString(), title: fallback }, words);
  return url ? fragment([link(unescape(url), ""), " ", time]) : time;
}

function formatted(at, zone, options) {
  return new Intl.DateTimeFormat("en-US", { timeZone: zone, ...options }).format(at);
}

const LONG = { year: "numeric", month: "long", day: "numeric" };
const SHORT = { year: "numeric", month: "short", day: "numeric" };
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const DATES = {
  date_num: (at, zone) => new Intl.DateTimeFormat("sv-SE", { timeZone: zone }).format(at),
  date: (at, zone) => formatted(at, zone, LONG),
  date_short: (at, zone) => formatted(at, zone, SHORT),
  date_long: (at, zone) => formatted(at, zone, { weekday: "long", ...LONG }),
  date_pretty: (at, zone) => pretty(at, zone, LONG),
  date_short_pretty: (at, zone) => pretty(at, zone, SHORT),
  date_long_pretty: (at, zone) => pretty(at, zone, { weekday: "long", ...LONG }),
  time: (at, zone) => formatted(at, zone, CLOCK),
  time_secs: (at, zone) => formatted(at, zone, { ...CLOCK, second: "2-digit" }),
  ago: (at) => ago((Date.now() - at) / 1000),
};

function pretty(at, zone, options) {
  const day = 86_400_000;
  const names = [[0, "today"], [-day, "yesterday"], [day, "tomorrow"]];
  const near = names.find(([shift]) => DATES.date_num(at, zone) === DATES.date_num(Date.now() + shift, zone));
  return near ? near[1] : formatted(at, zone, options);
}

function ago(seconds) {
  const [size, name] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([size]) => seconds >= size) ?? [1, "second"];
  return new Intl.RelativeTimeFormat("en").format(-Math.round(seconds / size), name);
}

function lines(text) {
  return text.split("\n").flatMap((line, number) => (number ? [el("br"), line] : [line]));
}

function fragment(parts) {
  const whole = document.createDocumentFragment();
  whole.append(...parts.filter((part) => part !== ""));
  return whole;
}

function unescape(text) {
  return text.replace(/&(lt|gt|amp);/g, (_, name) => ({ lt: "<", gt: ">", amp: "&" })[name]);
}
