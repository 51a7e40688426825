"""The two units of config.yaml: durations such as `5m`, sizes such as `512MiB`."""

import re
from datetime import timedelta

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", re.ASCII)
_DURATION_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")
_DURATION_LETTERS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_SIZE = re.compile(r"(\d{1,15})(|B|KiB|MiB|GiB|TiB)", re.ASCII)
_SIZE_FACTORS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class Duration(timedelta):
    """A duration, written `10s`, `5m`, `1h30m`, `30d` in the file."""


class Size(int):
    """A number of bytes, written `512MiB`, `1GiB` (or a plain number) in the file."""


def parse_duration(text: object) -> Duration:
    """Raises ValueError for anything but whole numbers with d, h, m, s, ms, largest unit first."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None or not text:
        raise ValueError("not a duration")
    parts = {unit: int(number) for unit, number in zip(_DURATION_UNITS, match.groups(), strict=True) if number}
    return Duration(**parts)


def duration_text(duration: timedelta) -> str:
    """As the file writes it: the inverse of parse_duration down to a millisecond."""
    left = duration // timedelta(milliseconds=1)
    text = ""
    for letter, milliseconds in _DURATION_LETTERS:
        count, left = divmod(left, milliseconds)
        text += f"{count}{letter}" if count else ""
    return text or "0s"


def parse_size(value: object) -> Size:
    """Raises ValueError for anything but a whole number, alone or with KiB, MiB, GiB, TiB."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("not a size")
    match = _SIZE.fullmatch(str(value))
    if match is None:
        raise ValueError("not a size")
    return Size(int(match[1]) * _SIZE_FACTORS[match[2]])


def size_text(size: int) -> str:
    """As the file writes it: the inverse of parse_size."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _SIZE_FACTORS[unit] == 0:
            return f"{size // _SIZE_FACTORS[unit]}{unit}"
    return str(size)
