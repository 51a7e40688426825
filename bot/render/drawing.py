"""What every card has: the incident it draws, notes below its facts, and its buttons."""

from collections.abc import Sequence, Set
from datetime import datetime

import msgspec
from slack_sdk.models.blocks import ButtonElement, InteractiveElement, Option, OverflowMenuElement, PlainTextObject

from bot.claims import Claim
from bot.incident import CANDIDATES, CardState, Incident, Quiet, QuietWhy
from bot.render.values import instant, person
from bot.render.words import Mrkdwn, Words

ACKNOWLEDGE = "acknowledge"
SNOOZE = "snooze"
UNSNOOZE = "unsnooze"
CARD_MENU = "card_menu"
WHY = "why"
EVIDENCE = "evidence"
IN_USE = "in_use"
CLAIM = "claim"
NOT_A_STALL = "not_a_stall"
SHOW_ALL = "show_all"


class Drawing(msgspec.Struct, frozen=True):
    """One card to draw. `free_now` are the UUIDs whose freshness was asked for just now.

    `members` are the incidents on a group's card. `audit_head` is the newest row of the record of remedies. `claims`
    are those that hold a GPU of the incident's node.
    """

    incident: Incident
    token: str
    free_now: Set[str]
    now: datetime
    possibly_twice: bool = False
    members: Sequence[Incident] = ()
    audit_head: str = ""
    claims: Sequence[Claim] = ()


# --- notes ----------------------------------------------------------------------------------------------------------


def notes_of_people(words: Words, incident: Incident) -> list[Mrkdwn]:
    """Who was told, who looks at it, who says that it is wrong, and what keeps it quiet."""
    notes = []
    if incident.mentions:
        notes.append(words.say("note.told", people=people(incident.mentions)))
    if incident.acknowledged_by and incident.acknowledged_at:
        by, at = person(incident.acknowledged_by), instant(incident.acknowledged_at)
        notes.append(words.say("note.acknowledged", by=by, at=at))
    if incident.disputed_by and incident.disputed_at and not _gpus_say_so(incident):
        key = "note.disputed" if incident.gpus else "note.not_a_stall"
        note = words.say(key, by=person(incident.disputed_by), at=instant(incident.disputed_at))
        notes.append(with_reason(words, note, incident.disputed_why))
    if incident.quiet and not incident.closed_at:
        notes.append(quiet_note(words, incident.quiet))
    return notes


def quiet_note(words: Words, quiet: Quiet) -> Mrkdwn:
    """What keeps it quiet, until when, and why."""
    if quiet.why is QuietWhy.NOT_POSTED:
        return words.say("note.not_posted")
    until = instant(quiet.until) if quiet.until else words.say("value.no_end")
    note = words.say(f"note.{quiet.why}", by=person(quiet.by or "?"), until=until)
    return with_reason(words, note, quiet.reason)


def with_reason(words: Words, note: Mrkdwn, reason: str) -> Mrkdwn:
    """`reason` is what a person typed, "" for nothing."""
    return Mrkdwn(f"{note}: {words.say('value.text', text=reason)}") if reason else note


def people(users: Sequence[str]) -> Mrkdwn:
    """As many as fit: 40 ids of Slack's do."""
    shown = [person(user) for user in users[:_MOST_PEOPLE]]
    while sum(map(len, shown)) > _LONGEST_PEOPLE:
        shown.pop()
    return Mrkdwn(" ".join(shown))


def last_note(words: Words, drawing: Drawing, closed: Mrkdwn) -> list[Mrkdwn]:
    """As of when the card speaks, or that it is over."""
    key = "note.as_of" if drawing.incident.kind in CANDIDATES else "note.seen_at"
    notes = [closed if drawing.incident.closed_at else words.say(key, at=instant(drawing.now))]
    return [*notes, words.say("note.possibly_twice")] if drawing.possibly_twice else notes


def _gpus_say_so(incident: Incident) -> bool:
    """Then the GPU's own line says by whom."""
    return any(gpu.state is CardState.DISPUTED for gpu in incident.gpus)


_MOST_PEOPLE, _LONGEST_PEOPLE = 40, 1000


# --- buttons --------------------------------------------------------------------------------------------------------


def buttons(words: Words, drawing: Drawing, menu: Sequence[str], subject: str) -> list[InteractiveElement]:
    """Acknowledge and Snooze, as far as they still do something, and the menu's actions; no buttons when it is over."""
    incident = drawing.incident
    if incident.closed_at:
        return []
    found: list[InteractiveElement] = []
    if incident.acknowledged_by is None:
        found.append(button(words, ACKNOWLEDGE, drawing.token, subject, style="primary"))
    is_snoozed = incident.quiet is not None and incident.quiet.why is QuietWhy.SNOOZED
    found.append(button(words, UNSNOOZE if is_snoozed else SNOOZE, drawing.token, subject))
    if len(menu) == 1:  # a menu wants two entries
        return [*found, ButtonElement(text=label(words, f"menu.{menu[0]}"), action_id=menu[0], value=drawing.token)]
    if menu:
        options = [Option(text=label(words, f"menu.{one}"), value=f"{one}:{drawing.token}") for one in menu]
        found.append(OverflowMenuElement(action_id=CARD_MENU, options=options))
    return found


def button(words: Words, action: str, token: str, subject: str, style: str | None = None) -> ButtonElement:
    return ButtonElement(
        text=label(words, f"button.{action}"),
        action_id=action,
        value=token,
        style=style,
        accessibility_label=words.plain(f"button.{action}.label", subject=subject)[:75],
    )


def label(words: Words, key: str) -> PlainTextObject:
    return PlainTextObject(text=words.plain(key), emoji=False)
