"""Dialogs: views as Slack wants them. What they carry through a submission is in `private_metadata`."""

from collections.abc import Mapping, Sequence
from typing import Any

from slack_sdk.models.blocks import (
    InputBlock,
    Option,
    PlainTextInputElement,
    PlainTextObject,
    RadioButtonsElement,
)

from bot.render import message
from bot.render.message import Message
from bot.render.words import Mrkdwn, Words, clean

SNOOZE_VIEW, NOT_A_STALL_VIEW, CLAIM_VIEW = "snooze", "not_a_stall", "claim"
LENGTH, CUSTOM, REASON, SCOPE = "length", "custom", "reason", "scope"
OTHER = "custom"
LENGTHS = ("1h", "4h", "morning", OTHER)
CLAIM_LENGTHS = ("4h", "1h", "morning", OTHER)
GPUS, ALL_GPUS, MOST_GPUS = "gpus", "all", 9  # of the ten choices that Slack allows
ONLY_THIS, WHOLE_NODE = "incident", "node"
LONGEST_REASON = 200
MOST_SECTIONS = 40
View = dict[str, Any]


def waiting(words: Words, title: str) -> View:
    """What stands there until the answer is known. `title` is a key of the catalogue."""
    return framed(words, title, [message.section([words.say("modal.wait")], words.say("answer.more")).to_dict()])


def told(words: Words, title: str, answer: Message) -> View:
    """An answer, with nothing more to fill in."""
    return framed(words, title, answer.blocks or [message.section([Mrkdwn(answer.text)], Mrkdwn("…")).to_dict()])


def snooze(words: Words, subject: str, node: str, carried: str) -> View:
    """`node` "" where there is no whole node to snooze."""
    blocks = [_head(words, subject), _choice(words, LENGTH, LENGTHS), _text(words, CUSTOM, hint="modal.custom.hint")]
    if node:
        blocks.append(_choice(words, SCOPE, (ONLY_THIS, WHOLE_NODE), node=node))
    blocks.append(_text(words, REASON, longest=LONGEST_REASON))
    return _form(words, SNOOZE_VIEW, blocks, carried)


def claim(words: Words, subject: str, gpus: Mapping[str, int], carried: str) -> View:
    """`gpus` are those on the card, UUID to index."""
    shown = sorted(gpus.items(), key=lambda one: one[1])[:MOST_GPUS]
    options = [Option(value=uuid, text=_plain(f"GPU {index}", 75)) for uuid, index in shown]
    if len(gpus) > 1:
        options.append(Option(value=ALL_GPUS, text=_plain(words.plain("modal.gpus.all", count=len(gpus)), 75)))
    element = RadioButtonsElement(action_id=GPUS, options=options, initial_option=options[0])
    which = InputBlock(block_id=GPUS, label=_plain(words.plain("modal.gpus")), element=element).to_dict()
    length = [_choice(words, LENGTH, CLAIM_LENGTHS), _text(words, CUSTOM, hint="modal.custom.hint")]
    blocks = [_head(words, subject), which, *length, _text(words, REASON, longest=LONGEST_REASON)]
    return _form(words, CLAIM_VIEW, blocks, carried)


def not_a_stall(words: Words, subject: str, carried: str) -> View:
    head = message.section([words.say("modal.not_a_stall.head")], words.say("answer.more")).to_dict()
    blocks = [_head(words, subject), head, _text(words, REASON, longest=LONGEST_REASON)]
    return _form(words, NOT_A_STALL_VIEW, blocks, carried)


def everything(words: Words, lines: Sequence[Mrkdwn]) -> View:
    """Tables are not allowed in dialogs: lines, as many as fit."""
    more, rest = words.say("answer.more"), list(lines)
    sections: list[dict[str, Any]] = []
    while rest and len(sections) < MOST_SECTIONS:
        fitting = _fitting(rest)
        sections.append(message.section(rest[:fitting], more).to_dict())
        rest = rest[fitting:]
    if rest:
        sections.append(message.context(words.counted("candidates.left_out", len(rest))).to_dict())
    return framed(words, "modal.show_all", sections or [_head(words, "-")])


def _fitting(lines: Sequence[Mrkdwn]) -> int:
    left = message.LONGEST_SECTION - 100
    for number, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0:
            return max(number, 1)
    return len(lines)


def _head(words: Words, subject: str) -> dict[str, Any]:
    return message.section([words.say("value.text", text=subject)], words.say("answer.more")).to_dict()


def _choice(words: Words, name: str, values: Sequence[str], **said: str) -> dict[str, Any]:
    options = [Option(value=one, text=_plain(words.plain(f"modal.{name}.{one}", **said), 75)) for one in values]
    element = RadioButtonsElement(action_id=name, options=options, initial_option=options[0])
    return InputBlock(block_id=name, label=_plain(words.plain(f"modal.{name}")), element=element).to_dict()


def _text(words: Words, name: str, *, longest: int = 40, hint: str | None = None) -> dict[str, Any]:
    placeholder = _plain(words.plain(hint)) if hint else None
    element = PlainTextInputElement(action_id=name, max_length=longest, placeholder=placeholder)
    label = _plain(words.plain(f"modal.{name}"))
    return InputBlock(block_id=name, label=label, element=element, optional=True).to_dict()


def _form(words: Words, callback_id: str, blocks: list[dict[str, Any]], carried: str) -> View:
    view = framed(words, f"modal.{callback_id}", blocks)
    submit = _plain(words.plain(f"modal.{callback_id}"), 24).to_dict()
    return view | {"callback_id": callback_id, "submit": submit, "private_metadata": carried}


def framed(words: Words, title: str, blocks: list[dict[str, Any]]) -> View:
    """A dialog of these blocks that nobody can submit. `title` is a key of the catalogue."""
    return {
        "type": "modal",
        "title": _plain(words.plain(title), 24).to_dict(),
        "close": _plain(words.plain("modal.close"), 24).to_dict(),
        "blocks": blocks,
    }


def _plain(text: str, longest: int = 150) -> PlainTextObject:
    return PlainTextObject(text=clean(text, longest), emoji=False)
