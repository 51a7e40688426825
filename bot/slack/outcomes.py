"""What a decision came to, as one sentence for the person who took it."""

from datetime import datetime

from bot.advance import Clicked, Outcome
from bot.incident import Incident
from bot.render import reply
from bot.render.card import ACKNOWLEDGE, IN_USE, NOT_A_STALL, SNOOZE, UNSNOOZE
from bot.render.message import Message
from bot.render.values import instant, person
from bot.render.words import Words

_DONE = {
    ACKNOWLEDGE: "reply.acknowledged",
    IN_USE: "reply.said_in_use",
    NOT_A_STALL: "reply.said_not_a_stall",
    SNOOZE: "reply.snoozed",
    UNSNOOZE: "reply.unsnoozed",
}


def said(words: Words, action: str, user: str, clicked: Clicked, until: datetime | None = None) -> Message:
    """`until` only for a snooze."""
    incident = clicked.incident
    if clicked.outcome is Outcome.DONE:
        values = {"until": instant(until)} if until else {}
        return reply.reply(words, _DONE[action], **values)
    if clicked.outcome is Outcome.ALREADY and incident is not None:
        return _already(words, action, user, incident)
    if clicked.outcome is Outcome.CLOSED and incident is not None and incident.closed_at is not None:
        return reply.reply(words, "reply.closed", at=instant(incident.closed_at))
    return reply.reply(words, f"reply.{clicked.outcome}")


def _already(words: Words, action: str, user: str, incident: Incident) -> Message:
    if action == UNSNOOZE:
        return reply.reply(words, "reply.not_snoozed")
    by, at, key = incident.disputed_by, incident.disputed_at, "reply.already_said_in_use"
    if action == ACKNOWLEDGE:
        by, at, key = incident.acknowledged_by, incident.acknowledged_at, "reply.already_acknowledged"
    if action == SNOOZE and incident.quiet and incident.quiet.until:
        by, at, key = incident.quiet.by, incident.quiet.until, "reply.already_snoozed"
    if by is None or at is None:
        return reply.reply(words, "reply.stale")
    if by == user:
        return reply.reply(words, f"{key}_by_you", at=instant(at))
    return reply.reply(words, key, by=person(by), at=instant(at))
