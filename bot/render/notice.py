"""What the bot says about itself in a channel."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from bot.render import claims, message
from bot.render.message import Message
from bot.render.values import instant, length
from bot.render.words import Words

WEEKLY_REPORT = "weekly_report"


class Counts(Protocol):
    """What happened meanwhile."""

    @property
    def began(self) -> int: ...
    @property
    def over(self) -> int: ...
    @property
    def still_open(self) -> int: ...


def since(values: Mapping[str, str]) -> datetime | None:
    return datetime.fromisoformat(values["since"]) if "since" in values else None


def notice(words: Words, key: str, values: Mapping[str, str], counts: Counts | None, now: datetime) -> Message:
    """`counts` only for a notice that looks back."""
    if key in claims.NOTICES:
        return claims.claim_notice(words, key, values)
    began_at = since(values)
    if began_at is None or counts is None:
        said = [words.say(key, **values)]
    else:
        lasted = length((now - began_at).total_seconds())
        numbers = {"began": counts.began, "over": counts.over, "still_open": counts.still_open}
        said = [words.say(key, since=instant(began_at), lasted=lasted, **numbers)]
    more = words.say("answer.more")
    return message.message(said, [message.section(said, more)], more)
