"""An event loop whose time passes at once: hours of sampling in milliseconds, and always the same way."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from agent.clock import Clock
from tests.build import BOOT

Result = TypeVar("Result")


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing: what would be waited for is added to the time."""

    now_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("the loop would wait for ever")
        if not ready and timeout > 0:
            self.now_seconds += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_seconds


def run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class VirtualClock(Clock):
    """The clocks of a node on the virtual loop; a test moves them."""

    def __init__(self, boottime_seconds: float = 0.0, boot_id: str = BOOT) -> None:
        self.ahead_seconds = boottime_seconds
        self.wall_offset = timedelta(0)
        self._boot_id = boot_id

    def boottime_seconds(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_seconds

    def wall(self) -> datetime:
        passed = timedelta(seconds=asyncio.get_running_loop().time())
        return datetime(2026, 11, 30, tzinfo=UTC) + passed + self.wall_offset

    def boot_id(self) -> str:
        return self._boot_id
