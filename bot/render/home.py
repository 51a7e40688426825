"""App Home: the fleet in one line, what is mine, what is snoozed, and how the bot itself is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from bot.incident import Incident
from bot.render import message
from bot.render.drawing import ACKNOWLEDGE, button, quiet_note
from bot.render.values import instant
from bot.render.words import Mrkdwn, Words

MOST_MINE = 20
MOST_LINES = 20


class Mine(msgspec.Struct, frozen=True):
    """An incident that concerns the reader, the first line of its card, and its button."""

    incident: Incident
    title: str
    token: str


class Wrong(msgspec.Struct, frozen=True):
    """What is red about the bot. `since` None: it cannot be told."""

    name: str
    why: str
    since: datetime | None


class Home(msgspec.Struct, frozen=True):
    free: int
    nodes: int
    still_open: int
    mine: Sequence[Mine]
    quiet: Sequence[tuple[Incident, str]]
    wrong: Sequence[Wrong]
    waiting: int
    now: datetime


def home(words: Words, shown: Home) -> dict[str, Any]:
    more = words.say("answer.more")
    fleet = words.say("home.fleet", nodes=shown.nodes, free=shown.free, still_open=shown.still_open)
    blocks: list[dict[str, Any]] = [message.section([fleet], more).to_dict()]
    blocks += _part(words, "home.mine", [])
    for one in shown.mine[:MOST_MINE]:
        said = words.say(
            "incidents.one", number=one.incident.id, title=one.title, since=instant(one.incident.opened_at)
        )
        blocks.append(message.section([said], more).to_dict())
        if one.incident.acknowledged_by is None:
            blocks.append(message.actions([button(words, ACKNOWLEDGE, one.token, one.title)]).to_dict())
    if not shown.mine:
        blocks.append(message.context(words.say("home.nothing")).to_dict())
    quiet = [_quiet(words, one, title) for one, title in shown.quiet[:MOST_LINES]]
    blocks += _part(words, "home.quiet", quiet or [words.say("home.nothing")])
    blocks += _part(words, "home.health", _health(words, shown))
    blocks.append(message.context(words.say("status.foot", at=instant(shown.now))).to_dict())
    return {"type": "home", "blocks": blocks}


def _part(words: Words, key: str, lines: Sequence[Mrkdwn]) -> list[dict[str, Any]]:
    head = message.header(words.plain(key)).to_dict()
    return [head, message.section(lines, words.say("answer.more")).to_dict()] if lines else [head]


def _quiet(words: Words, incident: Incident, title: str) -> Mrkdwn:
    note = quiet_note(words, incident.quiet) if incident.quiet else words.say("home.nothing")
    return words.say("home.one_quiet", number=incident.id, title=title, note=note)


def _health(words: Words, shown: Home) -> list[Mrkdwn]:
    if not shown.wrong:
        return [words.say("home.well", waiting=shown.waiting)]
    return [
        words.say("home.wrong", name=one.name, why=one.why, since=instant(one.since) if one.since else "-")
        for one in shown.wrong[:MOST_LINES]
    ]
