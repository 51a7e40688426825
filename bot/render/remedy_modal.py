"""The dialog in which somebody asks for a remedy: what it kills, what is not known, and everything in its way."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from slack_sdk.models.blocks import CheckboxesElement, InputBlock, Option, PlainTextInputElement, PlainTextObject

from bot.judge.verdict import Said
from bot.remedy.blockers import Blocker
from bot.render import message
from bot.render.finding_card import sentence
from bot.render.modal import REASON, View, framed
from bot.render.remedy_card import kill_list
from bot.render.words import Mrkdwn, Words, clean
from wire.orders import Action

REMEDY_VIEW = "remedy"
ACCEPTS, NODE_NAME = "accepts", "node_name"
SHORTEST_REASON, LONGEST_REASON = 10, 200
TITLES = {Action.RESTART_RUNNER: "modal.restart_runner", Action.REBOOT_NODE: "modal.reboot_node"}


class Form(msgspec.Struct, frozen=True):
    """What the dialog shows. `subject` is a node, or a node and its runner; `notes` what else must be known."""

    action: Action
    node: str
    subject: str
    has_evidence: bool
    kills: tuple[Said, ...]
    notes: tuple[Said, ...]
    blockers: Sequence[Blocker]


class CarriedPlan(msgspec.Struct, frozen=True):
    """What the dialog keeps until it is submitted: the name of what it showed, and the node that must be typed."""

    plan: str = ""
    node: str = ""


def carried_plan(metadata: str) -> CarriedPlan:
    try:
        return msgspec.json.decode(metadata, type=CarriedPlan)
    except msgspec.DecodeError:  # a dialog of another version
        return CarriedPlan()


def asking(words: Words, asked: Form, carried: str) -> View:
    """The form; where something stands in the way that nobody can accept, only what it is."""
    blocks = [_section(words, _facts(words, asked))]
    hard = [one for one in asked.blockers if not one.acceptable]
    if hard:
        blocks.append(_section(words, blocked(words, hard)))
        return framed(words, TITLES[asked.action], blocks)
    soft = [one for one in asked.blockers if one.acceptable]
    if soft:
        blocks.append(_accepts(words, soft))
    blocks.append(_reason(words))
    if asked.action is Action.REBOOT_NODE:
        blocks.append(_node_name(words, asked.node))
    submit = PlainTextObject(text=words.plain("modal.remedy.submit"), emoji=False).to_dict()
    form = framed(words, TITLES[asked.action], blocks)
    return form | {"callback_id": REMEDY_VIEW, "submit": submit, "private_metadata": carried}


def blocked(words: Words, found: Sequence[Blocker]) -> list[Mrkdwn]:
    """All of them at once, so that nobody meets the next one only after the first."""
    lines = [words.say("finding.line", line=sentence(words, one.said)) for one in found]
    return [words.say("remedy.blocked"), *lines]


def _facts(words: Words, asked: Form) -> list[Mrkdwn]:
    key = "remedy.modal.evidence" if asked.has_evidence else "remedy.no_evidence"
    head = words.say(f"remedy.modal.{asked.action}", subject=asked.subject)
    notes = [sentence(words, one) for one in asked.notes]
    return [head, words.say(key), *notes, *kill_list(words, asked.kills)]


def problems(words: Words, values: Mapping[str, Any], node: str) -> dict[str, str]:
    """What is wrong with what was filled in, by block. `node` is what must be typed, "" for nothing."""
    wrong = {}
    if len(typed(values, REASON)) < SHORTEST_REASON:
        wrong[REASON] = words.plain("modal.remedy.reason_short")
    if node and typed(values, NODE_NAME).lower() != node:
        wrong[NODE_NAME] = words.plain("modal.remedy.wrong_node", node=node)
    return wrong


def typed(values: Mapping[str, Any], name: str) -> str:
    return str(((values.get(name) or {}).get(name) or {}).get("value") or "").strip()


def accepted(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The blockers that were accepted by name."""
    chosen = ((values.get(ACCEPTS) or {}).get(ACCEPTS) or {}).get("selected_options") or []
    return tuple(str(one.get("value") or "") for one in chosen)


def _section(words: Words, lines: Sequence[Mrkdwn]) -> dict[str, Any]:
    return message.section(lines, words.say("answer.more")).to_dict()


def _accepts(words: Words, soft: Sequence[Blocker]) -> dict[str, Any]:
    options = [Option(value=one.name, text=_plain(words.plain(one.said.key, **one.said.texts), 75)) for one in soft]
    element = CheckboxesElement(action_id=ACCEPTS, options=options)
    return InputBlock(block_id=ACCEPTS, label=_plain(words.plain("modal.remedy.accepts")), element=element).to_dict()


def _reason(words: Words) -> dict[str, Any]:
    element = PlainTextInputElement(action_id=REASON, min_length=SHORTEST_REASON, max_length=LONGEST_REASON)
    return InputBlock(block_id=REASON, label=_plain(words.plain("modal.remedy.reason")), element=element).to_dict()


def _node_name(words: Words, node: str) -> dict[str, Any]:
    element = PlainTextInputElement(action_id=NODE_NAME, max_length=63, placeholder=_plain(node))
    label = _plain(words.plain("modal.remedy.node_name", node=node))
    return InputBlock(block_id=NODE_NAME, label=label, element=element).to_dict()


def _plain(text: str, longest: int = 150) -> PlainTextObject:
    return PlainTextObject(text=clean(text, longest), emoji=False)
