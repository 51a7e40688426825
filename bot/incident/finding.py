"""A finding's incident: opens when the finding is present, closes when it is absent, and does neither on unknown."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from bot.incident.kinds import severity
from bot.incident.model import (
    Effect,
    Finding,
    Incident,
    Mention,
    Opening,
    ShowCard,
    Step,
    ThreadLine,
    Who,
)
from bot.incident.speech import changed, opened, own_snooze
from bot.judge.verdict import Presence

# Numbers on a card that only grow are drawn again this often: edits are dear (50 a minute for the whole workspace).
REDRAW_EVERY = timedelta(minutes=5)


def found(incident: Incident | None, event: Finding, now: datetime) -> Step:
    bare = replace(event, opening=Opening(), changed_at=now)
    if incident is None:
        return _opened(bare, event.opening, now) if event.presence is Presence.PRESENT else (None, ())
    before = incident.finding
    if event.presence is Presence.ABSENT:
        return _over(incident, bare, now)
    if before is None or event.presence is Presence.UNKNOWN:
        return _not_seen(incident, before, now)
    if before.what != event.what:
        return _other_verdict(incident, before, bare, event.opening, now)
    return _same_verdict(incident, before, bare, now)


def _opened(finding: Finding, opening: Opening, now: datetime) -> Step:
    new = Incident(id=0, kind=finding.kind, subject=finding.subject, opened_at=now, finding=finding)
    return opened(new, opening, now, ShowCard(), *_mention(new, "thread.opened"))


def _mention(incident: Incident, key: str) -> tuple[Effect, ...]:
    return (Mention(Who.ON_CALL, key),) if incident.wakes_people else ()


def _over(incident: Incident, finding: Finding, now: datetime) -> Step:
    return changed(
        replace(incident, closed_at=now, ending=finding.lines), ShowCard(), ThreadLine("thread.recovered", {})
    )


def _not_seen(incident: Incident, before: Finding | None, now: datetime) -> Step:
    if before is None or before.presence is Presence.UNKNOWN:
        return incident, ()
    unseen = replace(before, presence=Presence.UNKNOWN, changed_at=now)
    return changed(replace(incident, finding=unseen), ShowCard(), ThreadLine("thread.not_seen", {}))


def _other_verdict(incident: Incident, before: Finding, finding: Finding, opening: Opening, now: datetime) -> Step:
    """A snooze is for what was seen when it was made: another verdict that is as bad, or worse, ends it."""
    is_worse = severity(finding.what) > severity(before.what)
    snooze = own_snooze(incident, now)
    quiet = opening.quiet
    if snooze and severity(finding.what) < snooze.up_to:
        quiet = snooze
    after = replace(incident, finding=finding, quiet=quiet)
    if quiet is None and incident.shown_on is None and (incident.quiet is not None or incident.said_at is None):
        after = replace(after, said_at=now, escalated=0)
    if is_worse:  # the person who said that it works, or looks at it, did not know this
        after = replace(after, disputed_by=None, disputed_at=None, disputed_why="")
    told = _mention(after, "thread.worse") if is_worse or incident.quiet else ()
    line = ThreadLine("thread.verdict", {"verdict": finding.what})
    return changed(after, ShowCard(), *(told or (line,)))


def _same_verdict(incident: Incident, before: Finding, finding: Finding, now: datetime) -> Step:
    is_back = before.presence is Presence.UNKNOWN
    began = now if is_back else before.changed_at
    seen = replace(finding, since=before.since, changed_at=began)
    if is_back:
        return changed(replace(incident, finding=seen), ShowCard(), ThreadLine("thread.seen_again", {}))
    is_same = _sentences(seen) == _sentences(before) and seen.remedies == before.remedies
    if is_same and not _is_old(incident, before, seen, now):
        return incident, ()
    return changed(replace(incident, finding=seen, drawn_at=now), ShowCard())


def _sentences(finding: Finding) -> tuple[str, ...]:
    return (finding.title.key, *(line.key for line in finding.lines), *(line.key for line in finding.last_known))


def _is_old(incident: Incident, before: Finding, seen: Finding, now: datetime) -> bool:
    drawn_at = incident.drawn_at or incident.opened_at
    return before != seen and abs(now - drawn_at) >= REDRAW_EVERY
