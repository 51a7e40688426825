"""`step(incident, event, now)`: the next incident, and what must leave the bot."""

from datetime import datetime
from typing import Any

from bot.incident import candidate, finding, group, people, remedy
from bot.incident.kinds import Kind
from bot.incident.model import (
    Acknowledged,
    Event,
    Finding,
    Folded,
    Incident,
    Judged,
    Members,
    NotAStall,
    RemedyAsked,
    RemedyMoved,
    SaidInUse,
    Snoozed,
    Step,
    TimePassed,
    Tried,
    Unsnoozed,
)

# What a judge says may open an incident; what people and time do only moves an open one.
_OPENS: dict[type, Any] = {
    Judged: candidate.judged,
    Finding: finding.found,
    Members: group.members,
    RemedyAsked: remedy.asked,
}
_MOVES: dict[type, Any] = {
    Acknowledged: people.acknowledged,
    Snoozed: people.snoozed,
    Unsnoozed: people.unsnoozed,
    SaidInUse: people.said_in_use,
    NotAStall: people.not_a_stall,
    TimePassed: people.time_passed,
    Folded: group.folded,
    RemedyMoved: remedy.moved,
    Tried: remedy.tried,
}


def step(incident: Incident | None, event: Event, now: datetime) -> Step:
    """The incident after the event (None: still none) and its effects; the same incident when nothing changed."""
    if incident is not None and incident.closed_at and not isinstance(event, Tried):
        return incident, ()  # only what a remedy came to is still added
    if type(event) in _OPENS:
        after: Step = _OPENS[type(event)](incident, event, now)
        return after
    if incident is None or (incident.kind is Kind.REMEDY and not isinstance(event, RemedyMoved)):
        return incident, ()  # a request for a remedy is neither acknowledged nor snoozed: it is decided, or expires
    moved: Step = _MOVES[type(event)](incident, event, now)
    return moved
