"""The node's clocks, the only place of the agent that reads them."""

import time
from datetime import UTC, datetime
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock:
    """The real clocks. Simulated nodes (demo, tests) pass another object with the same methods."""

    def boottime_seconds(self) -> float:
        """Seconds since boot, sleep included; never jumps when somebody sets the wall clock."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> datetime:
        """The wall clock: a label for people, never used to decide."""
        return datetime.now(UTC)

    def boot_id(self) -> str:
        return _BOOT_ID.read_text().strip()
