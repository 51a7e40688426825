"""Bounds of config values as sentences."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from wire.configfile import Problem
from wire.units import Size, duration_text, size_text

Value = int | float | timedelta
Bound = tuple[str, Value, Value | None, Value | None]
"""Key, value, at least, at most."""


def outside(bounds: Iterable[Bound], unless: str = "") -> Iterator[Problem]:
    """A problem for every value out of its bounds; `unless` names what lifts lower ones, as `mode: demo`."""
    end = f" (only {unless} may differ)" if unless else ""
    for key, value, at_least, at_most in bounds:
        if at_least is not None and value < at_least:  # type: ignore[operator]
            yield Problem(key, f"wants at least {_text(at_least)}, got {_text(value)}{end}")
        if at_most is not None and value > at_most:  # type: ignore[operator]
            yield Problem(key, f"wants at most {_text(at_most)}, got {_text(value)}")


def _text(value: Value) -> str:
    if isinstance(value, timedelta):
        return duration_text(value)
    return size_text(value) if isinstance(value, Size) else str(value)
