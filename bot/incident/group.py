"""A group's incident: one card for many, open as long as one of its members is."""

from datetime import datetime

from msgspec.structs import replace

from bot.incident.kinds import FLEET_SUBJECT
from bot.incident.model import Folded, Incident, Members, Mention, ShowCard, Step, ThreadLine, Who
from bot.incident.speech import changed, opened, own_snooze


def members(incident: Incident | None, event: Members, now: datetime) -> Step:
    if incident is None:
        return _opened(event, now) if event.open else (None, ())
    after = replace(incident, members=event.total, members_open=event.open)
    if not event.open:
        return changed(replace(after, closed_at=now), ShowCard(), ThreadLine("thread.recovered", {}))
    if event.total <= incident.members or not after.wakes_people:
        return changed(after, ShowCard())
    if own_snooze(incident, now):  # whoever snoozed it did not know of this one
        after = replace(after, quiet=None, said_at=now, escalated=0)
        return changed(after, ShowCard(), Mention(Who.ON_CALL, "thread.worse"))
    return changed(after, ShowCard(), Mention(Who.ON_CALL, "thread.more_members"))


def _opened(event: Members, now: datetime) -> Step:
    new = Incident(
        id=0,
        kind=event.kind,
        subject=FLEET_SUBJECT,
        opened_at=now,
        members=event.total,
        members_open=event.open,
    )
    told = (Mention(Who.ON_CALL, "thread.opened"),) if new.wakes_people else ()
    return opened(new, event.opening, now, ShowCard(), *told)


def folded(incident: Incident, event: Folded, now: datetime) -> Step:
    if incident.shown_on == event.shown_on:
        return incident, ()
    return changed(replace(incident, shown_on=event.shown_on, said_at=None, quiet=None))
