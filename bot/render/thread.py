"""One line in the thread of a card."""

from collections.abc import Mapping

from bot.judge.verdict import Because
from bot.render.message import Message
from bot.render.values import because
from bot.render.words import Words


def line(words: Words, key: str, values: Mapping[str, str]) -> Message:
    """A line is a new message, so it mentions nobody: who pressed what stands on the card."""
    if "because" not in values:
        return Message(words.say(key), [])
    why = because(words, Because(values["because"]), values.get("detail", ""))
    return Message(words.say(key, index=values.get("index", "?"), why=why), [])
