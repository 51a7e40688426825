"""What people type after a command, also on phones: words, GPUs, times."""

import difflib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

_QUOTES = str.maketrans({**dict.fromkeys("\"'`“”„‟‘’‚‛«»"), **dict.fromkeys("‐‑‒–—−", "-"), "\u00a0": " "})
_AGO = re.compile(r"(\d{1,5}) ?(s|sec|m|min|h|d)(?: ago)?", re.ASCII | re.IGNORECASE)
_UNITS = {"s": "seconds", "sec": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:?\d{2})?", re.ASCII | re.IGNORECASE)
_LENGTH = re.compile(r"(\d{1,4}) ?(m|min|h|d)", re.ASCII)
_NUMBER = re.compile(r"(?:#|inc-)?(\d{1,15})", re.ASCII)
_GPU_INDEX = re.compile(r"(?:gpu)?(\d{1,5})", re.ASCII)
SHORTEST_UUID = 4
SHORTEST_SNOOZE, LONGEST_SNOOZE = timedelta(minutes=1), timedelta(days=30)


def words_of(text: str) -> list[str]:
    """Lower case, without quotation marks; long dashes and doubled hyphens of phones are hyphens."""
    return html.unescape(text).translate(_QUOTES).lower().split()


def rest_of(text: str, words: int) -> str:
    """What stands after so many words, as it was typed."""
    parts = html.unescape(text).split(maxsplit=words)
    return parts[words].strip().strip('"“”„') if len(parts) > words else ""


def incident_number(word: str) -> int | None:
    """`12`, `#12`, `INC-12`."""
    found = _NUMBER.fullmatch(word)
    return int(found[1]) if found else None


def snooze_end(word: str, now: datetime, zone: tzinfo) -> datetime | None:
    """`90m`, `2h`, `1d`, `until=18:00` (the next one), `until=2026-11-30t18:00`; None when it is none of them."""
    if found := _LENGTH.fullmatch(word):
        return now + timedelta(**{_UNITS[found[2]]: int(found[1])})
    if not word.startswith("until="):
        return None
    until = word.removeprefix("until=")
    if clock := _CLOCK.fullmatch(until):
        return _next_time(int(clock[1]), int(clock[2]), now, zone)
    return moment(until, now, zone) if _INSTANT.fullmatch(until) else None


def nearest(word: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)), None)


def moment(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """`20m ago`, `14:30` (the last one), `2026-11-30T14:30`; None when it is none of them. May lie in the future."""
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})
    if clock := _CLOCK.fullmatch(text):
        return _last_time(int(clock[1]), int(clock[2]), now, zone)
    if not _INSTANT.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError:  # a date that the calendar does not have
        return None
    return at if at.tzinfo else at.replace(tzinfo=zone)


def _last_time(hour: int, minute: int, now: datetime, zone: tzinfo) -> datetime:
    here = now.astimezone(zone)
    today = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if today <= here:
        return today
    return (here - timedelta(days=1)).replace(hour=hour, minute=minute, second=0, microsecond=0)


def _next_time(hour: int, minute: int, now: datetime, zone: tzinfo) -> datetime:
    here = now.astimezone(zone)
    today = here.replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    at = (
        today if today > here else (here + timedelta(days=1)).replace(hour=hour, minute=minute, second=0, microsecond=0)
    )
    return at.astimezone(now.tzinfo)


def gpus_named(word: str, indexes: Mapping[str, int]) -> Sequence[str]:
    """The UUIDs that an index, a UUID or its beginning may mean."""
    if index := _GPU_INDEX.fullmatch(word):
        by_index = [uuid for uuid, number in indexes.items() if number == int(index[1])]
        if by_index:
            return by_index
    beginning = word.removeprefix("gpu-")
    if len(beginning) < SHORTEST_UUID:
        return []
    return [uuid for uuid in indexes if uuid.lower().removeprefix("gpu-").startswith(beginning)]
