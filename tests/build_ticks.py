"""Builders of ticks: a runner at rest, and one that hangs while its API answers."""

from datetime import timedelta

from tests.build import START
from wire.ticks import ApiState, ProcessState, SignalClass, Tick

LATER = timedelta(hours=12)


def tick(at_minutes: float = 0.0, **changes: object) -> Tick:
    """One tick of a runner of class A; nothing waits, nothing moves, and its clocks began just now."""
    values: dict[str, object] = {
        "runner": "chat",
        "preset": "vllm",
        "signal_class": SignalClass.A,
        "at_seconds": 50_000.0 + at_minutes * 60,
        "taken_at": START + LATER + timedelta(minutes=at_minutes),
        "tick_seconds": 30.0,
    }
    return Tick(**{**values, **changes})


def hung(at_minutes: float = 0.0, minutes: float = 17.0, **changes: object) -> Tick:
    """12 wait, nothing has moved for so many minutes, and our canaries time out."""
    values: dict[str, object] = {
        "api": ApiState.OK,
        "api_milliseconds": 4.2,
        "process": ProcessState.ALIVE,
        "demand": 12.0,
        "waiting_seconds": minutes * 60,
        "no_progress_seconds": minutes * 60,
        "unserved_seconds": minutes * 60,
        "last_moved_seconds": minutes * 60 + 60,
        "canary_timeouts": 6,
        "ticks": round(minutes * 2),
        "gpu_highest_percent": 100,
        "gpu_utilization_percent": 100,
    }
    return tick(at_minutes, **{**values, **changes})
