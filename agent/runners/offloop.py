"""Reads that may hang (a dead NFS, a driver's lock) in threads of their own: they stop nobody else."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class OffLoop:
    """One read at a time: as long as one hangs, no other is started. The threads end with the program."""

    def __init__(self) -> None:
        self._running: asyncio.Future[object] | None = None

    async def read(self, work: Callable[[], Value], seconds: float) -> Value:
        """Raises TimeoutError, and what `work` raises."""
        if self._running is not None and not self._running.done():
            raise TimeoutError("an earlier read has not returned yet")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()
        self._running = future  # type: ignore[assignment]
        threading.Thread(target=_work, args=(work, future, loop), daemon=True, name="runner-read").start()
        done, _ = await asyncio.wait({future}, timeout=seconds)
        if not done:
            future.add_done_callback(_forget)
            raise TimeoutError(f"no answer within {seconds:g} s")
        return future.result()


def _work(work: Callable[[], Value], future: "asyncio.Future[Value]", loop: asyncio.AbstractEventLoop) -> None:
    try:
        value = work()
    except Exception as error:
        _tell(loop, future, error=error)
    else:
        _tell(loop, future, value=value)


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: "asyncio.Future[Value]",
    value: Value | None = None,
    error: Exception | None = None,
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


def _forget(future: "asyncio.Future[Value]") -> None:
    """A late failure was told as a timeout already."""
    if not future.cancelled():
        future.exception()
