"""Takes windows to the disk: closed ones to spool and record, the open one to the spool."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from agent.observe import ClosedWindow, OpenWindow, Reporter, observation
from agent.record import Record
from agent.sample import Turn
from agent.spool import Spool, SpoolError
from wire.messages import encode, fit

log = logging.getLogger(__name__)


async def kept_window(spool: Spool) -> OpenWindow | None:
    """The window that was open when the agent last ran; None at the first start. Raises SpoolError."""
    kept = await spool.open_window()
    if kept is None:
        return None
    try:
        return msgspec.json.decode(kept, type=OpenWindow)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.error("the open window of the last run cannot be read, so it is missing error=%s", error)
        return None


class WindowKeeper:
    """Stores every turn, in order. A disk that refuses is said once and again when it is back; it stops nothing."""

    def __init__(self, spool: Spool, record: Record, reporter: Reporter, on_closed: Callable[[], None]) -> None:
        self._spool, self._record, self._reporter, self._on_closed = spool, record, reporter, on_closed
        self._failing: set[str] = set()

    async def run(self, turns: asyncio.Queue[Turn]) -> None:
        while True:
            turn = await turns.get()
            try:
                await self._store(turn)
            finally:
                turns.task_done()

    async def _store(self, turn: Turn) -> None:
        try:
            await self._spool_turn(turn)
        except SpoolError as error:
            self._tell("spool", error)
        else:
            self._recovered("spool")
        if turn.closed is not None:
            await self._write_record(turn.closed)
            self._on_closed()

    async def _spool_turn(self, turn: Turn) -> None:
        open_window, closed = msgspec.json.encode(turn.open), turn.closed
        if closed is None:
            await self._spool.keep_open_window(open_window)
            return
        reporter = self._reporter
        await self._spool.append(lambda epoch, seq: encode(fit(observation(closed, reporter, epoch, seq))), open_window)

    async def _write_record(self, closed: ClosedWindow) -> None:
        seen = observation(closed, self._reporter, self._spool.epoch, self._spool.last_seq)
        try:
            await asyncio.to_thread(self._record.write, seen)
        except OSError as error:
            self._tell("record", error)
        else:
            self._recovered("record")

    def _tell(self, what: str, error: Exception) -> None:
        if what not in self._failing:
            log.error("%s cannot be written, sampling goes on, windows may be missing error=%s", what, error)
        self._failing.add(what)

    def _recovered(self, what: str) -> None:
        if what in self._failing:
            log.info("%s can be written again", what)
        self._failing.discard(what)
