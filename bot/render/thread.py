"""One line in the thread of a card."""

from collections.abc import Mapping

from bot.judge.verdict import Because
from bot.render.drawing import people
from bot.render.message import Message
from bot.render.values import because
from bot.render.words import Words, clean

LONGEST_TEXT = 300


def line(words: Words, key: str, values: Mapping[str, str]) -> Message:
    """A line is a new message: it mentions those who must hear of it, and nobody else; who pressed is on the card."""
    shown: dict[str, object] = {"index": values.get("index", "?")}
    if "because" in values:
        shown["why"] = because(words, Because(values["because"]), values.get("detail", ""))
    if "mention" in values:
        shown["people"] = people(values["mention"].split())
    if "verdict" in values:
        shown["verdict"] = words.plain(f"what.{values['verdict']}")
    if "text" in values:  # a person's word, or a node's
        shown["text"] = words.say("value.text", text=clean(values["text"], LONGEST_TEXT))
    return Message(words.say(key, **shown), [])
