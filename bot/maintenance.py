"""Planned maintenance: which windows cover a node at an instant, and until when."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from fnmatch import fnmatchcase

import msgspec

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEKLY = re.compile(
    r"(?:(?P<daily>daily)|(?P<first>[A-Z][a-z]{2})(?:-(?P<last>[A-Z][a-z]{2}))?) "
    r"(?P<begin>[0-2]\d:[0-5]\d)-(?P<end>[0-2]\d:[0-5]\d)",
    re.ASCII,
)


_LONGEST = timedelta(days=3650)  # of one that says no beginning


class Weekly(msgspec.Struct, frozen=True):
    """Begins at `begin` on these weekdays (0 is Monday); an `end` that is not later is on the next day."""

    days: frozenset[int]
    begin: time
    end: time


class MaintenanceWindow(msgspec.Struct, frozen=True):
    """`nodes` are globs, `groups` names of groups.

    Either `weekly`, or from `since` (None: always) until `until`, on the channel's clock.
    """

    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    weekly: Weekly | None = None
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""


class Maintenance(msgspec.Struct, frozen=True):
    """One maintenance that goes on; it ends at `until` at the latest."""

    until: datetime
    reason: str


def parse_weekly(text: str) -> Weekly:
    """`Sun 02:00-04:00`, `Mon-Fri 22:00-06:00` or `daily 02:00-03:00`; raises ValueError for anything else."""
    found = _WEEKLY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    begin, end = time.fromisoformat(found["begin"]), time.fromisoformat(found["end"])
    if found["daily"]:
        return Weekly(frozenset(range(7)), begin, end)
    first = DAYS.index(found["first"])
    last = DAYS.index(found["last"]) if found["last"] else first
    count = (last - first) % 7 + 1
    return Weekly(frozenset((first + day) % 7 for day in range(count)), begin, end)


def is_within(weekly: Weekly, now: datetime, zone: tzinfo) -> bool:
    return any(begin <= now < end for begin, end in _weekly_spans(weekly, now, zone))


def maintenance(
    windows: Iterable[MaintenanceWindow], node: str, group: str | None, now: datetime, zone: tzinfo
) -> Maintenance | None:
    """The one that lasts longest of those that cover the node, which is of this group, now."""
    mine = [window for window in windows if group in window.groups or matches(window.nodes, node)]
    found = [going_on for window in mine if (going_on := _going_on(window, now, zone))]
    return max(found, key=lambda one: one.until, default=None)


def _going_on(window: MaintenanceWindow, now: datetime, zone: tzinfo) -> Maintenance | None:
    spans = _weekly_spans(window.weekly, now, zone) if window.weekly else _dated_spans(window, zone)
    ends = (end for begin, end in spans if begin <= now < end)
    return next((Maintenance(end.astimezone(UTC), window.reason) for end in ends), None)


def matches(globs: Sequence[str], node: str) -> bool:
    return any(fnmatchcase(node, glob) for glob in globs)


def _dated_spans(window: MaintenanceWindow, zone: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    if window.until is not None:
        since = window.since or window.until - _LONGEST
        yield since.replace(tzinfo=zone), window.until.replace(tzinfo=zone)


def _weekly_spans(weekly: Weekly, now: datetime, zone: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    """Those that begin today or yesterday: one may last over midnight."""
    today = now.astimezone(zone).date()
    for day in (today - timedelta(days=1), today):
        if day.weekday() in weekly.days:
            yield _at(day, weekly.begin, zone), _at(_last_day(weekly, day), weekly.end, zone)


def _last_day(weekly: Weekly, day: date) -> date:
    return day if weekly.end > weekly.begin else day + timedelta(days=1)


def _at(day: date, at: time, zone: tzinfo) -> datetime:
    return datetime.combine(day, at, zone)
