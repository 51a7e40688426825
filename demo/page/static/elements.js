// Buttons, menus, pickers and inputs. In messages they act at once; in dialogs `env.form` gathers what was filled in.

import { el, newId } from "./dom.js";
import { openMenu } from "./menu.js";
import { link, textOf } from "./mrkdwn.js";

export function drawElement(element, block, env) {
  const draw = ELEMENTS[element.type];
  if (draw) return draw(element, block, env);
  if (!FIELDS[element.type]) return el("span", { class: "unknown" }, `(${element.type})`);
  const words = element.placeholder?.text ?? element.type.replaceAll("_", " ");
  const act = (value) => choose(element, block, env, value);
  return FIELDS[element.type](element, { label: words, key: env.key(element), act, env });
}

const ELEMENTS = { button, overflow, icon_button: button, feedback_buttons: feedback };

function button(element, block, env) {
  const press = () => act(element, env, { deed: "press", place: env.place, block_id: block.block_id, action_id: element.action_id });
  const look = { type: "button", class: `press ${element.style ?? ""}`, "data-key": env.key(element) };
  const node = el("button", { ...look, "aria-label": labelFor(element), click: press }, textOf(element.text, env.context));
  return element.url ? el("span", {}, node, " ", link(element.url, "↗")) : node;
}

/** A name for screen readers must hold the words that people see. */
function labelFor(element) {
  const label = element.accessibility_label;
  const words = element.text.text.replace(/…$/, "");
  return !label ? null : label.startsWith(words) ? label : `${element.text.text}: ${label}`;
}

function feedback(element, block, env) {
  return [element.positive_button, element.negative_button].map((one) =>
    button({ ...one, type: "button", action_id: element.action_id }, block, env));
}

function overflow(element, block, env) {
  const pick = (option) => choose(element, block, env, option.value);
  const items = element.options.map((option) => ({ words: option.text.text, about: option.description?.text, pick: () => pick(option) }));
  return el("button", {
    type: "button", class: "press more", "data-key": env.key(element), "aria-label": "More actions", "aria-haspopup": "menu",
    "aria-expanded": "false", click: (event) => openMenu(event.currentTarget, items),
  }, "⋯");
}

function choose(element, block, env, value) {
  return act(element, env, { deed: "choose", place: env.place, block_id: block.block_id, action_id: element.action_id, value });
}

async function act(element, env, deed) {
  if (!element.confirm) return env.send(deed);
  return (await env.ask(element.confirm)) ? env.send({ ...deed, confirm: true }) : undefined;
}

// --- what holds a value: each gets {label, key, act, env} and calls act(value) at every change -------------------------

const FIELDS = {
  static_select: (element, place) => select(element, place, false, optionsOf(element)),
  multi_static_select: (element, place) => select(element, place, true, optionsOf(element)),
  users_select: (element, place) => select(element, place, false, people(place.env)),
  multi_users_select: (element, place) => select(element, place, true, people(place.env)),
  channels_select: (element, place) => select(element, place, false, channels(place.env)),
  multi_channels_select: (element, place) => select(element, place, true, channels(place.env)),
  conversations_select: (element, place) => select(element, place, false, channels(place.env)),
  multi_conversations_select: (element, place) => select(element, place, true, channels(place.env)),
  radio_buttons: (element, place) => choices(element, place, "radio"),
  checkboxes: (element, place) => choices(element, place, "checkbox"),
  plain_text_input: (element, place) => typed(element, place, element.multiline ? null : "text"),
  number_input: (element, place) => typed(element, place, "number"),
  email_text_input: (element, place) => typed(element, place, "email"),
  url_text_input: (element, place) => typed(element, place, "url"),
  datepicker: (element, place) => typed({ ...element, initial_value: element.initial_date }, place, "date"),
  timepicker: (element, place) => typed({ ...element, initial_value: element.initial_time }, place, "time"),
  datetimepicker: (element, place) => moment(element, place),
};

/** An input block of a dialog: its label, the element, its hint and what is wrong with it. */
export function drawInput(block, env) {
  const { element } = block;
  const draw = FIELDS[element.type];
  if (!draw) return el("div", { class: "section unknown" }, `This page does not draw inputs of the type ${element.type}.`);
  const id = newId("input");
  const form = env.form;
  const kept = form.drafts.get(block.block_id);
  const act = (value) => {
    form.drafts.set(block.block_id, value);
    if (block.dispatch_action) choose(element, block, env, value);
  };
  const place = { id, key: env.key(element), act, env, kept, describedBy: [], isRequired: !block.optional, error: form.errors[block.block_id] };
  const hint = block.hint && el("p", { id: `${id}-hint`, class: "hint" }, textOf(block.hint, env.context));
  const error = place.error && el("p", { id: `${id}-error`, class: "error" }, SENTENCES[place.error] ?? place.error);
  if (hint) place.describedBy.push(`${id}-hint`);
  if (error) place.describedBy.push(`${id}-error`);
  const words = [textOf(block.label, env.context), block.optional && el("span", { class: "optional" }, " (optional)")];
  const isGroup = ["radio_buttons", "checkboxes"].includes(element.type);
  const node = draw(element, place);
  if (isGroup) return el("fieldset", { class: "input", ...described(place) }, el("legend", {}, words), node, hint, error);
  return el("div", { class: "input" }, el("label", { for: id }, words), node, hint, error);
}

const SENTENCES = { required: "Please fill this in.", "too long": "This is too long.", "too short": "This is too short." };

function described(place) {
  return { "aria-describedby": place.describedBy?.join(" ") || null };
}

function named(place) {
  return { id: place.id ?? null, "aria-label": place.label ?? null, "data-key": place.key, "aria-invalid": place.error ? "true" : null, ...described(place) };
}

function typed(element, place, type) {
  const value = place.kept ?? element.initial_value ?? "";
  const limits = { maxlength: element.max_length ?? null, placeholder: element.placeholder?.text ?? null };
  const attributes = { ...named(place), ...limits, "aria-required": place.isRequired ? "true" : null };
  const node = type === null ? el("textarea", { ...attributes, rows: 4 }) : el("input", { ...attributes, type });
  node.value = value;
  // At every key, so that nothing is lost when the dialog is drawn anew; outside of dialogs only when it is finished.
  node.addEventListener(place.label ? "change" : "input", () => place.act(node.value));
  return node;
}

function moment(element, place) {
  const initial = place.kept ?? element.initial_date_time;
  const local = initial ? new Date(initial * 1000 - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16) : "";
  const change = (event) => place.act(event.target.value ? Math.round(new Date(event.target.value) / 1000) : null);
  const node = el("input", { ...named(place), type: "datetime-local", change });
  node.value = local;
  return node;
}

function select(element, place, isMultiple, options) {
  const initial = element.initial_options?.map((one) => one.value) ?? element.initial_users ?? element.initial_channels ?? element.initial_conversations;
  const single = element.initial_option?.value ?? element.initial_user ?? element.initial_channel ?? element.initial_conversation;
  const chosen = [].concat(place.kept ?? initial ?? single ?? []);
  const values = (node) => [...node.selectedOptions].map((one) => one.value);
  const change = (event) => place.act(isMultiple ? values(event.target) : event.target.value || null);
  const empty = !isMultiple && el("option", { value: "" }, element.placeholder?.text ?? "Choose…");
  return el("select", { ...named(place), multiple: isMultiple, change }, empty, options.map(([value, words]) =>
    el("option", { value, selected: chosen.includes(value) }, words)));
}

function optionsOf(element) {
  const all = element.options ?? element.option_groups.flatMap((group) => group.options);
  return all.map((option) => [option.value, option.text.text]);
}

function people(env) {
  return env.people.map((one) => [one.id, one.real_name]);
}

function channels(env) {
  return env.channels.map((one) => [one.id, `#${one.name}`]);
}

function choices(element, place, type) {
  const initial = (element.initial_options ?? [element.initial_option]).filter(Boolean).map((one) => one.value);
  const chosen = [].concat(place.kept ?? initial);
  const name = newId("choice");
  const box = el("div", { class: "choices", change: () => {
    const values = [...box.querySelectorAll("input:checked")].map((one) => one.value);
    place.act(type === "radio" ? values[0] : values);
  } });
  for (const option of element.options) {
    const id = newId("option");
    box.append(el("div", { class: "choice" },
      el("input", { type, name, id, value: option.value, checked: chosen.includes(option.value), "data-key": `${place.key}/${option.value}` }),
      el("label", { for: id }, textOf(option.text, place.env.context), option.description && el("span", { class: "hint" }, textOf(option.description, place.env.context)))));
  }
  return box;
}
