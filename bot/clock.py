"""The bot's clocks, the only place of the bot that reads them."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Aware UTC, for labels, deadlines that people see and records."""
    return datetime.now(UTC)


def monotonic_seconds() -> float:
    """For ages and time-outs: never jumps when somebody sets the wall clock."""
    return time.monotonic()


def boot_seconds() -> float:
    """Like `monotonic_seconds`, and it goes on while the machine sleeps: for what ends whether or not we look."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
