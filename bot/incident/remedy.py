"""A request for a remedy as an incident, so that it has one card; and what it leaves on the card of the stall."""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from bot.incident.kinds import Kind
from bot.incident.model import Effect, Incident, Recorded, RemedyAsked, RemedyMoved, ShowCard, Step, ThreadLine, Tried
from bot.incident.speech import changed
from bot.remedy.model import Happened
from bot.remedy.step import step

# Recorded, and seen on the card itself: a line in its thread would only be noise.
_ONLY_RECORDED = frozenset({"sending", "countdown_runs"})


def asked(incident: Incident | None, event: RemedyAsked, now: datetime) -> Step:
    """One that is under way is not asked for again."""
    if incident is not None:
        return incident, ()
    request = event.request
    new = Incident(
        id=0,
        kind=Kind.REMEDY,
        subject=request.node,
        opened_at=now,
        said_at=now,
        mentions=event.mentions,
        remedy=request,
    )
    return new, (ShowCard(), Recorded("asked", request.asked_by, request.reason or request.policy))


def moved(incident: Incident, event: RemedyMoved, now: datetime) -> Step:
    """Every change makes the buttons of before stale."""
    if incident.remedy is None:
        return incident, ()
    after, happened = step(incident.remedy, event.event, now)
    if after is incident.remedy:
        return incident, ()
    incident = replace(
        incident,
        remedy=after,
        revision=incident.revision + 1,
        decision_revision=incident.decision_revision + 1,
        closed_at=after.ended_at,
    )
    return incident, (ShowCard(at_once=True), *(effect for one in happened for effect in _effects(one)))


def _effects(happened: Happened) -> Iterator[Effect]:
    why = happened.why or " ".join(happened.values.values())
    yield Recorded(happened.what, happened.who, why)
    if happened.what not in _ONLY_RECORDED:
        yield ThreadLine(f"thread.remedy.{happened.what}", {"text": why or "-"})


def tried(incident: Incident, event: Tried, now: datetime) -> Step:
    """The stall's own card says which remedy is under way, and what became of it."""
    others = tuple(one for one in incident.tried if one.number != event.number)
    after = replace(incident, tried=(*others, event))
    return changed(after, ShowCard()) if after != incident else (incident, ())
