"""Ends a child process politely and in the background: a call stuck in the driver may not die at all."""

import asyncio
import logging
from asyncio.subprocess import Process
from contextlib import suppress
from datetime import timedelta

GRACE = timedelta(seconds=3)  # a SIGKILL in the middle of a driver call has frozen GPUs: dcgm-exporter#84

_log = logging.getLogger(__name__)


class Ending:
    """At most one child on its way out: SIGTERM, SIGKILL after the grace, then waiting for as long as it takes."""

    def __init__(self, grace: timedelta = GRACE) -> None:
        self._grace_seconds = grace.total_seconds()
        self._task: asyncio.Task[None] | None = None
        self._pid = 0

    def begin(self, process: Process) -> None:
        """Returns at once. Nothing new may be started before `pending` is None."""
        self._pid = process.pid
        self._task = asyncio.create_task(self._end(process))

    def pending(self) -> str | None:
        """A sentence for as long as the child is alive."""
        if self._task is None or self._task.done():
            return None
        return f"an earlier reading still hangs in the driver (PID {self._pid} does not end); nothing new is started"

    async def wait(self, limit: timedelta) -> bool:
        """Whether the child was gone within the limit."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=limit.total_seconds())
        return self.pending() is None

    async def _end(self, process: Process) -> None:
        with suppress(ProcessLookupError):
            process.terminate()
        exited = asyncio.ensure_future(_exit(process))
        await asyncio.wait([exited], timeout=self._grace_seconds)
        if not exited.done():
            _log.warning("child ignores SIGTERM, sending SIGKILL pid=%d", process.pid)
            with suppress(ProcessLookupError):
                process.kill()
        await exited


async def _exit(process: Process) -> None:
    """asyncio tells of a process's end only when its pipes were read to theirs."""
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(65536):
            pass
    await process.wait()
