// Blocks as Slack draws them. A table from type to drawing; what it does not know is named, and its text shown.

import { el } from "./dom.js";
import { drawElement, drawInput } from "./elements.js";
import { emojiOf, link, mention, plain, textOf } from "./mrkdwn.js";

/** `env`: where the blocks stand and what they can do there; see places.js. */
export function drawBlocks(blocks, env) {
  return el("div", { class: "blocks" }, blocks.map((block) => drawBlock(block, env)));
}

function drawBlock(block, env) {
  return (BLOCKS[block.type] ?? unknown)(block, env);
}

const BLOCKS = {
  header: (block, env) =>
    el("div", { class: "header", role: "heading", "aria-level": env.level }, plain(block.text.text, block.text.emoji !== false)),
  divider: () => el("hr"),
  section: (block, env) =>
    el("div", { class: block.accessory ? "section with-accessory" : "section" },
      el("div", { class: "section-text" },
        block.text && el("div", { class: "text" }, textOf(block.text, env.context)),
        block.fields && el("div", { class: "fields" }, block.fields.map((field) => el("div", {}, textOf(field, env.context))))),
      block.accessory && el("div", { class: "accessory" }, part(block.accessory, block, env))),
  context: (block, env) => el("div", { class: "context" }, block.elements.map((one) => part(one, block, env))),
  actions: (block, env) => el("div", { class: "actions" }, block.elements.map((one) => part(one, block, env))),
  context_actions: (block, env) => el("div", { class: "actions" }, block.elements.map((one) => part(one, block, env))),
  input: (block, env) => drawInput(block, env),
  image: (block, env) => el("figure", {}, block.title && el("figcaption", {}, textOf(block.title, env.context)), picture(block)),
  rich_text: (block, env) => el("div", { class: "section" }, block.elements.map((one) => rich(one, env))),
  markdown: (block) => el("div", { class: "section markdown" }, plain(block.text)),
  alert: (block, env) => el("div", { class: `section alert ${block.level ?? "default"}` }, textOf(block.text, env.context)),
  table: (block, env) => table(block, env),
  data_table: (block, env) => table(block, env),
  container: (block, env) =>
    el("div", { class: "container" },
      el("div", { class: "text" }, el("strong", {}, textOf(block.title, env.context))), drawBlocks(block.child_blocks, env)),
};

function unknown(block) {
  return el("div", { class: "section unknown" }, `This page does not draw blocks of the type ${block.type}.`);
}

/** What may stand in a context, as an accessory, or in a row of actions. */
function part(element, block, env) {
  if (element.type === "image") return picture(element, "small");
  if (element.type === "mrkdwn" || element.type === "plain_text") return el("span", {}, textOf(element, env.context));
  return drawElement(element, block, env);
}

/** Pictures of other sites are not loaded: their words stand in for them. */
function picture(block, kind = "large") {
  const own = block.slack_file?.id;
  if (own) return el("img", { class: kind, src: `/files/${encodeURIComponent(own)}`, alt: block.alt_text });
  return el("span", { class: "no-picture", role: "img", "aria-label": block.alt_text }, `[picture: ${block.alt_text}]`);
}

function table(block, env) {
  const [head, ...rows] = block.rows;
  const align = (column) => block.column_settings?.[column]?.align ?? "left";
  const cell = (tag, attributes) => (one, column) => el(tag, { ...attributes, class: align(column) }, cellOf(one, env));
  return el("div", { class: "table", role: "region", "aria-label": block.caption ?? "Table", tabindex: 0 },
    el("table", {},
      block.caption && el("caption", {}, block.caption),
      el("thead", {}, el("tr", {}, head.map(cell("th", { scope: "col" })))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell("td", {})))))));
}

function cellOf(cell, env) {
  if (cell.type === "rich_text") return cell.elements.map((one) => rich(one, env));
  return plain(String(cell.text ?? cell.value ?? ""));
}

const RICH = {
  rich_text_section: (element, env) => el("div", {}, parts(element, env)),
  rich_text_preformatted: (element, env) => el("pre", { tabindex: 0 }, parts(element, env)),
  rich_text_quote: (element, env) => el("blockquote", {}, parts(element, env)),
  rich_text_list: (element, env) =>
    el(element.style === "ordered" ? "ol" : "ul", {}, element.elements.map((one) => el("li", {}, parts(one, env)))),
};

function rich(element, env) {
  return RICH[element.type]?.(element, env) ?? "";
}

function parts(element, env) {
  return element.elements.map((one) => richPart(one, env));
}

function richPart(one, env) {
  const id = one.user_id ?? one.usergroup_id ?? one.channel_id;
  if (id) return mention(env.context.names[id] ?? id, id === env.context.me);
  if (one.type === "broadcast") return mention(`@${one.range}`, true);
  if (one.type === "link") return link(one.url, one.text ?? "");
  if (one.type === "emoji") return emojiOf(one.name) ?? `:${one.name}:`;
  if (one.type === "date") return textOf(`<!date^${one.timestamp}^${one.format}|${one.fallback ?? ""}>`, env.context);
  const style = one.style ?? {};
  const tags = [["bold", "strong"], ["italic", "em"], ["strike", "s"], ["code", "code"], ["underline", "u"]];
  return tags.reduce((inner, [name, tag]) => (style[name] ? el(tag, {}, inner) : inner), plain(one.text ?? one.value ?? ""));
}
