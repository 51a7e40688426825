"""A state of a card, and what the states share."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from bot.incident import Incident
from bot.render.card import Drawing, card
from bot.render.message import Message
from bot.render.words import words
from tests.bot.build_cards import NOW

EN = words("en")
TOKEN = "t" * 22
NODE = "gpu-07"
ALICE, BOB = "U0ALICE", "U0BOB"
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class State:
    """`about` is what a reader should know of it; `alt` says what the picture shows, for those who do not see it."""

    name: str
    title: str
    about: str
    alt: str
    draw: Callable[[], Message]


def drawn(incident: Incident, free_now: frozenset[str] = frozenset(), **changes: object) -> Message:
    return card(EN, Drawing(incident, TOKEN, free_now, NOW, **changes))
