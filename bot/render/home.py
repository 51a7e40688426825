"""App Home: the fleet in one line, what is mine, what is snoozed, and how the bot itself is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from bot.claims import Claim
from bot.incident import Incident
from bot.render import message
from bot.render.advice import told
from bot.render.claims import claim_lines
from bot.render.drawing import ACKNOWLEDGE, Drawing, button, quiet_note
from bot.render.remedy_card import remedy_buttons, remedy_lines
from bot.render.values import instant
from bot.render.words import Mrkdwn, Words

MOST_MINE = 20
MOST_LINES = 20
MOST_WANTED = 5


class Mine(msgspec.Struct, frozen=True):
    """An incident that concerns the reader, the first line of its card, and its button."""

    incident: Incident
    title: str
    token: str


class Wrong(msgspec.Struct, frozen=True):
    """What is red about the bot. `since` None: it cannot be told. `key` counts `count` in place of `why`; "": none."""

    name: str
    why: str
    since: datetime | None
    key: str = ""
    count: int = 0


class Wanted(msgspec.Struct, frozen=True):
    """A request that the reader may approve, the first line of its card, and its buttons' token."""

    incident: Incident
    title: str
    token: str


class Rights(msgspec.Struct, frozen=True):
    """For how many of the nodes the reader may approve what changes them."""

    nodes: int
    approves: int


class Home(msgspec.Struct, frozen=True):
    """`said` answers what the reader pressed here. `sockets` are the connections to Slack that stand, of so many."""

    free: int
    nodes: int
    still_open: int
    mine: Sequence[Mine]
    quiet: Sequence[tuple[Incident, str]]
    wrong: Sequence[Wrong]
    waiting: int
    now: datetime
    wanted: Sequence[Wanted] = ()
    claims: Sequence[Claim] = ()
    rights: Rights | None = None
    sockets: tuple[int, int] | None = None
    said: Mrkdwn | None = None


def home(words: Words, shown: Home) -> dict[str, Any]:
    more = words.say("answer.more")
    fleet = words.say("home.fleet", nodes=shown.nodes, free=shown.free, still_open=shown.still_open)
    blocks: list[dict[str, Any]] = [message.section([fleet], more).to_dict()]
    if shown.said is not None:
        blocks.insert(0, message.section([shown.said], more).to_dict())
    blocks += _wanted(words, shown)
    blocks += _mine(words, shown)
    blocks += _part(words, "home.claims", claim_lines(words, shown.claims) or [words.say("home.nothing")])
    quiet = [_quiet(words, one, title) for one, title in shown.quiet[:MOST_LINES]]
    blocks += _part(words, "home.quiet", quiet or [words.say("home.nothing")])
    blocks += _part(words, "home.health", _health(words, shown))
    if shown.rights is not None:
        may = words.say("home.rights", approves=shown.rights.approves, nodes=shown.rights.nodes)
        blocks += _part(words, "home.your_rights", [may])
    blocks.append(message.context(words.say("status.foot", at=instant(shown.now))).to_dict())
    return {"type": "home", "blocks": blocks}


def _wanted(words: Words, shown: Home) -> list[dict[str, Any]]:
    """Nothing where nothing waits for the reader."""
    if not shown.wanted:
        return []
    blocks = _part(words, "home.wanted", [])
    for one in shown.wanted[:MOST_WANTED]:
        said = words.say("home.one_wanted", number=one.incident.id, title=one.title)
        # Whoever approves here sees what the card shows: above all, what will be killed.
        facts = remedy_lines(words, one.incident.remedy) if one.incident.remedy else ()
        blocks.append(message.section([said, *facts], words.say("answer.more")).to_dict())
        drawing = Drawing(one.incident, one.token, frozenset(), shown.now)
        if one.incident.remedy and (pressed := remedy_buttons(words, drawing, one.incident.remedy)):
            blocks.append(message.actions(pressed).to_dict())
    return blocks


def _mine(words: Words, shown: Home) -> list[dict[str, Any]]:
    blocks = _part(words, "home.mine", [])
    for one in shown.mine[:MOST_MINE]:
        said = words.say(
            "incidents.one", number=one.incident.id, title=one.title, since=instant(one.incident.opened_at)
        )
        blocks.append(message.section([said], words.say("answer.more")).to_dict())
        if one.incident.acknowledged_by is None:
            blocks.append(message.actions([button(words, ACKNOWLEDGE, one.token, one.title)]).to_dict())
    if not shown.mine:
        blocks.append(message.context(words.say("home.nothing")).to_dict())
    return blocks


def _part(words: Words, key: str, lines: Sequence[Mrkdwn]) -> list[dict[str, Any]]:
    head = message.header(words.plain(key)).to_dict()
    return [head, message.section(lines, words.say("answer.more")).to_dict()] if lines else [head]


def _quiet(words: Words, incident: Incident, title: str) -> Mrkdwn:
    note = quiet_note(words, incident.quiet) if incident.quiet else words.say("home.nothing")
    return words.say("home.one_quiet", number=incident.id, title=title, note=note)


def _why(words: Words, one: Wrong) -> str:
    return words.plain_counted(one.key, one.count) if one.key else told(words, one.why)


def _health(words: Words, shown: Home) -> list[Mrkdwn]:
    lines = []
    if shown.sockets is not None:
        lines.append(words.say("home.sockets", connected=shown.sockets[0], of=shown.sockets[1]))
    if not shown.wrong:
        return [*lines, words.say("home.well", waiting=shown.waiting)]
    return lines + [
        words.say("home.wrong", name=one.name, why=_why(words, one), since=instant(one.since) if one.since else "-")
        for one in shown.wrong[:MOST_LINES]
    ]
