"""What the bot says about itself in a channel."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from bot.render import claims, message
from bot.render.advice import told
from bot.render.message import Message
from bot.render.values import instant, length
from bot.render.words import Mrkdwn, Words, code

WEEKLY_REPORT = "weekly_report"
JOIN_REFUSED = "notice.join_refused"
RESTORED = "notice.restored"


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
    if key == JOIN_REFUSED:
        why = words.say(f"{JOIN_REFUSED}.{values['why']}")
        values = {**values, "why": why, "address": _origin(words, values["address"])}
    began_at = since(values)
    if began_at is None or counts is None:
        shown = {**values, "error": told(words, values["error"])} if "error" in values else values
        said = [words.say(key, **shown)]
    else:
        lasted = length((now - began_at).total_seconds())
        numbers = {"began": counts.began, "over": counts.over, "still_open": counts.still_open}
        said = [words.say(key, since=instant(began_at), lasted=lasted, **numbers)]
    more = words.say("answer.more")
    return message.message(said, [message.section(said, more)], more)


def _origin(words: Words, address: str) -> Mrkdwn:
    """Where a join came from; what came over the bus says no address."""
    from_address = words.say(f"{JOIN_REFUSED}.from", address=code(address, 60))
    return from_address if address else words.say(f"{JOIN_REFUSED}.bus")


def stray(words: Words) -> Message:
    """In place of a card that the bot's record does not know any more."""
    said, more = words.say("notice.stray"), words.say("answer.more")
    return message.message([said], [message.section([said], more)], more)
