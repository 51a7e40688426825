"""What people decide about an incident, and what time does to it."""

from datetime import datetime, time, timedelta, tzinfo
from enum import StrEnum

from msgspec.structs import replace

from bot.incident.model import (
    Acknowledged,
    CardGpu,
    CardState,
    Incident,
    Mention,
    NotAStall,
    Quiet,
    QuietWhy,
    SaidInUse,
    ShowCard,
    Snoozed,
    Step,
    ThreadLine,
    TimePassed,
    Unsnoozed,
    Who,
)
from bot.incident.speech import changed, decided, is_to_wake, own_snooze, said_again

LONGEST_REASON = 200
_MORNING = time(9)


class SnoozeChoice(StrEnum):
    ONE_HOUR = "1h"
    FOUR_HOURS = "4h"
    MORNING = "morning"


def snooze_until(choice: SnoozeChoice, now: datetime, zone: tzinfo) -> datetime:
    """Until when; MORNING is the next 09:00 in the zone."""
    if choice is SnoozeChoice.ONE_HOUR:
        return now + timedelta(hours=1)
    if choice is SnoozeChoice.FOUR_HOURS:
        return now + timedelta(hours=4)
    there = now.astimezone(zone)
    day = there.date() if there.time() < _MORNING else there.date() + timedelta(days=1)
    return datetime.combine(day, _MORNING, zone).astimezone(now.tzinfo)


def acknowledged(incident: Incident, event: Acknowledged, now: datetime) -> Step:
    if incident.acknowledged_by:
        return incident, ()
    after = replace(incident, acknowledged_by=event.user, acknowledged_at=now)
    return decided(after, ThreadLine("thread.acknowledged", {"user": event.user}))


def snoozed(incident: Incident, event: Snoozed, now: datetime) -> Step:
    quiet = Quiet(
        QuietWhy.SNOOZED,
        up_to=incident.severity,
        until=event.until,
        by=event.user,
        reason=event.reason[:LONGEST_REASON],
    )
    if event.until <= now or quiet == incident.quiet:
        return incident, ()
    return decided(replace(incident, quiet=quiet), ThreadLine("thread.snoozed", {"user": event.user}))


def unsnoozed(incident: Incident, event: Unsnoozed, now: datetime) -> Step:
    if own_snooze(incident, now) is None:
        return incident, ()
    after = replace(incident, quiet=None, said_at=now if incident.shown_on is None else None, escalated=0)
    return decided(after, ThreadLine("thread.unsnoozed", {"user": event.user}))


def said_in_use(incident: Incident, event: SaidInUse, now: datetime) -> Step:
    if incident.disputed_by or not incident.gpus:
        return incident, ()
    gpus = tuple(_disputed(gpu, now) for gpu in incident.gpus)
    after = replace(incident, gpus=gpus, disputed_by=event.user, disputed_at=now)
    return decided(after, ThreadLine("thread.said_in_use", {"user": event.user}))


def _disputed(gpu: CardGpu, now: datetime) -> CardGpu:
    if gpu.state not in (CardState.CONFIRMED, CardState.NOT_JUDGED):
        return gpu
    return replace(gpu, state=CardState.DISPUTED, changed_at=now)


def not_a_stall(incident: Incident, event: NotAStall, now: datetime) -> Step:
    if incident.disputed_by or incident.finding is None:
        return incident, ()
    why = event.reason[:LONGEST_REASON]
    after = replace(incident, disputed_by=event.user, disputed_at=now, disputed_why=why)
    return decided(after, ThreadLine("thread.not_a_stall", {"user": event.user}))


def time_passed(incident: Incident, event: TimePassed, now: datetime) -> Step:
    if incident.shown_on is not None:
        return _own_snooze_over(incident, now)
    wanted = own_snooze(incident, now) or event.quiet
    if wanted == incident.quiet:
        return _escalated(incident, event, now)
    if wanted is None:
        return said_again(incident, now)
    return changed(replace(incident, quiet=wanted), ShowCard())


def _own_snooze_over(incident: Incident, now: datetime) -> Step:
    """One on a group's card: nothing of it is said by itself."""
    if incident.quiet is None or own_snooze(incident, now):
        return incident, ()
    return changed(replace(incident, quiet=None))


def _escalated(incident: Incident, event: TimePassed, now: datetime) -> Step:
    """Nobody acknowledged: the same people once more, then the second ones, once."""
    if incident.quiet or event.posted_at is None or incident.said_at is None or not is_to_wake(incident):
        return incident, ()
    said_at = incident.said_at if incident.said_at <= now else event.posted_at  # the clock was set back since
    waited = now - max(said_at, event.posted_at)
    if incident.escalated == 0 and waited >= event.again_after:
        return _told(incident, Mention(Who.ON_CALL, "thread.nobody_yet"))
    if incident.escalated == 1 and waited >= event.second_after:
        return _told(incident, Mention(Who.SECOND, "thread.nobody_still"))
    return incident, ()


def _told(incident: Incident, mention: Mention) -> Step:
    return changed(replace(incident, escalated=incident.escalated + 1), ShowCard(), mention)
