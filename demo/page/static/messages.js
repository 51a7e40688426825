// A channel's messages, the answers that only one person sees, and threads.

import { drawBlocks } from "./blocks.js";
import { el } from "./dom.js";
import { openMenu } from "./menu.js";
import { emojiOf, mrkdwn } from "./mrkdwn.js";

/** Items for reconcile(): the channel's own messages, and answers only for this person, by time. */
export function channelItems(channel, page) {
  const own = channel.messages.filter((one) => !isReply(one));
  const mine = page.ephemerals.filter((one) => one.channel === channel.id && !one.thread_ts);
  return inOrder([...own, ...mine]).map((message) => {
    const replies = channel.messages.filter((one) => one.thread_ts === message.ts && isReply(one));
    return item(message, replies, "message", page);
  });
}

/** The message that a thread hangs on, and its replies. */
export function threadItems(channel, ts, page) {
  const root = channel.messages.find((one) => one.ts === ts);
  if (!root) return null;
  const replies = channel.messages.filter((one) => one.thread_ts === ts && isReply(one));
  const mine = page.ephemerals.filter((one) => one.channel === channel.id && one.thread_ts === ts);
  return [root, ...inOrder([...replies, ...mine])].map((message) => item(message, [], "reply", page));
}

function isReply(message) {
  return Boolean(message.thread_ts) && message.thread_ts !== message.ts;
}

function inOrder(messages) {
  return messages.sort((one, other) => Number(one.ts) - Number(other.ts));
}

function item(message, replies, where, page) {
  const key = `${where}/${message.channel}/${message.ts}`;
  const last = replies.at(-1)?.ts ?? "";
  const sign = [page.me.id, message.version, replies.length, last, JSON.stringify(message.reactions ?? {}), page.app.sign].join("|");
  return { key, sign, make: () => draw(message, replies, where, page) };
}

function draw(message, replies, where, page) {
  const { only_me: onlyMe, by } = message;
  const name = el("span", { class: "name" }, by.name);
  const env = page.env({ channel: message.channel, ts: message.ts, version: message.version }, `${where}/${message.channel}/${message.ts}`, where === "reply" ? 3 : 2);
  return el("article", { class: onlyMe ? "message only-me" : "message", "aria-label": `${by.name}, ${clock(message.ts, page)}`, tabindex: -1, "data-ts": message.ts },
    el("div", { class: by.is_app ? "avatar app" : "avatar", "aria-hidden": "true" }, by.is_app ? "" : by.name[0]),
    el("div", { class: "content" },
      onlyMe && el("p", { class: "only" }, "Only visible to you ", dismiss(message, page)),
      el("div", { class: "who" }, name, by.is_app && el("span", { class: "badge" }, "APP"), time(message.ts, page),
        !onlyMe && tools(message, where, page)),
      message.blocks.length ? drawBlocks(message.blocks, env) : el("div", { class: "text" }, mrkdwn(message.text, env.context)),
      (message.files ?? []).map(file),
      reactions(message),
      replies.length > 0 && where === "message" && thread(message, replies, page)));
}

function thread(message, replies, page) {
  const words = `${replies.length} ${replies.length === 1 ? "reply" : "replies"}`;
  const last = replies.at(-1);
  return el("button", { type: "button", class: "replies", "data-key": `thread/${message.ts}`, click: () => page.openThread(message.ts) },
    words, el("span", { class: "last" }, ` Last at ${clock(last.ts, page)}`));
}

function tools(message, where, page) {
  const items = where === "message" ? [{ words: "Reply in thread", pick: () => page.openThread(message.ts) }] : [];
  for (const { name, callback_id } of page.app.shortcuts)
    items.push({ words: name, about: "the app's shortcut", pick: () => page.send({ deed: "shortcut", callback_id, channel: message.channel, ts: message.ts }) });
  if (!items.length) return null;
  return el("button", {
    type: "button", class: "tools", "data-key": `tools/${where}/${message.ts}`, "aria-haspopup": "menu", "aria-expanded": "false",
    "aria-label": `Actions on the message of ${clock(message.ts, page)}`, click: (event) => openMenu(event.currentTarget, items),
  }, "⋮");
}

function dismiss(message, page) {
  return el("button", { type: "button", class: "plain", "data-key": `dismiss/${message.ts}`, click: () => page.dismiss(message.ts) }, "Dismiss");
}

function file({ id, name, title, alt_text: alt, is_picture: isPicture }) {
  const address = `/files/${encodeURIComponent(id)}`;
  if (!isPicture) return el("p", { class: "file" }, el("a", { href: address, download: name }, name));
  return el("figure", {}, el("figcaption", {}, title || name), el("img", { class: "large", src: address, alt: alt || title || name }));
}

function reactions(message) {
  const found = Object.entries(message.reactions ?? {});
  if (!found.length) return null;
  return el("p", { class: "reactions" }, found.map(([name, count]) => el("span", {}, emojiOf(name) ?? `:${name}:`, ` ${count} `)));
}

function time(ts, page) {
  return el("time", { datetime: new Date(Number(ts) * 1000).toISOString() }, clock(ts, page));
}

function clock(seconds, page) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: page.me.tz };
  return new Intl.DateTimeFormat("en-US", options).format(new Date(Number(seconds) * 1000));
}
