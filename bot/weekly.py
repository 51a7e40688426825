"""A time of the week on the channel's clock: when it was last, and what that week is called."""

import re
from datetime import datetime, time, timedelta, tzinfo

import msgspec

from bot.maintenance import DAYS

LATE_AT_MOST = timedelta(days=1)
_TEXT = re.compile(r"([A-Z][a-z]{2}) ([0-2]\d:[0-5]\d)", re.ASCII)


class Weekly(msgspec.Struct, frozen=True):
    """`day` 0 is Monday."""

    day: int
    at: time


def parse(text: str) -> Weekly:
    """`Mon 09:07`; raises ValueError for anything else."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return Weekly(DAYS.index(found[1]), time.fromisoformat(found[2]))


def last(weekly: Weekly, now: datetime, zone: tzinfo) -> datetime:
    """The latest such time that is not after `now`."""
    there = now.astimezone(zone)
    day = there.date() - timedelta(days=(there.weekday() - weekly.day) % 7)
    at = datetime.combine(day, weekly.at, zone)
    return at if at <= there else datetime.combine(day - timedelta(days=7), weekly.at, zone)


def due(weekly: Weekly, now: datetime, zone: tzinfo) -> datetime | None:
    """The time for which something is to be said now; None: it is too long ago."""
    at = last(weekly, now, zone)
    return at if now - at <= LATE_AT_MOST else None
