"""Which of two bots works: waits for the lease, keeps it, and gives it back."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.store import leases
from bot.store.engine import begin_for_writing, why
from bot.store.leases import Lease
from bot.store.tenure import Tenure

log = logging.getLogger(__name__)

LASTS_SECONDS = 9.0  # longer than PostgreSQL lets a stopped bot hold its transaction: bot/store/engine.py
MARGIN_SECONDS = 1.0  # we stop before others may begin: the two clocks may run at different speeds
RENEW_SECONDS = 2.0
LOOK_SECONDS = 0.5

Result = TypeVar("Result")


class Leases:
    """`holder` names this bot to people. `is_shared` False: SQLite, where whoever begins has it."""

    def __init__(self, engine: Engine, holder: str) -> None:
        self._engine = engine
        self._holder = holder
        self._trouble = ""
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lease")
        self.is_shared = engine.dialect.name == "postgresql"

    async def taken(self, look: Callable[[Lease], None]) -> Tenure:
        """Waits until no other bot has it; `look` is told who works each time that it is not ours."""
        while True:
            with contextlib.suppress(SQLAlchemyError):
                tried = await self.try_to_take()
                if isinstance(tried, Tenure):
                    return tried
                look(tried)
            await asyncio.sleep(LOOK_SECONDS)

    async def try_to_take(self) -> Tenure | Lease:
        """Ours now, or who has it. Of a bot that died this is known once it was seen unchanged long enough."""
        present, now = await self._asked(leases.read), clock.boot_seconds()
        if self._seen is None or (present.fence, present.until) != (self._seen.fence, self._seen.until):
            self._seen, self._seen_at = present, now
        if self.is_shared and present.holder and now - self._seen_at < LASTS_SECONDS:
            return present
        fence = await self._asked(lambda connection: leases.take(connection, self._holder, LASTS_SECONDS, present))
        return present if fence is None else Tenure(fence, self._until(now))

    async def taken_unless_kept(self) -> Tenure | Lease:
        """For a command: it waits for a lease that only a bot which died can have left, and for no other."""
        while True:
            tried = await self.try_to_take()
            if isinstance(tried, Tenure) or tried.is_kept:
                return tried
            await asyncio.sleep(LOOK_SECONDS)

    async def keep(self, tenure: Tenure) -> str:
        """Renews it until it is lost, and returns why. A database that is away for a moment costs nothing."""
        while tenure.is_held():
            await asyncio.sleep(RENEW_SECONDS)
            with contextlib.suppress(SQLAlchemyError):
                before = clock.boot_seconds()
                if not await self._renewed(tenure.fence):
                    tenure.end()
                    return "another bot works now"
                tenure.extend(self._until(before))
        return f"the database did not renew it for {LASTS_SECONDS - MARGIN_SECONDS:.0f} s"

    async def _renewed(self, fence: int) -> bool:
        """On SQLite there is nothing to write: it looks whether another bot has begun."""
        return await self._asked(
            lambda connection: leases.renew(connection, fence, LASTS_SECONDS), writes=self.is_shared
        )

    async def give_back(self, tenure: Tenure) -> None:
        """The next one may begin at once, unless something of ours is still on its way."""
        tenure.end()
        if tenure.is_unsure:
            return
        with contextlib.suppress(SQLAlchemyError):
            await self._asked(lambda connection: leases.release(connection, tenure.fence))

    def _until(self, before: float) -> float | None:
        return before + LASTS_SECONDS - MARGIN_SECONDS if self.is_shared else None

    async def _asked(self, work: Callable[[Connection], Result], *, writes: bool = True) -> Result:
        """On a thread and a connection of its own, so that nothing else holds it up. Its failure is said once."""
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work, writes)
        except SQLAlchemyError as error:
            if not self._trouble:
                log.error("The database does not answer about the lease, trying on; error=%s", why(error))
            self._trouble = str(error)
            raise
        if self._trouble:
            log.info("The database answers about the lease again")
        self._trouble = ""
        return result

    def _run(self, work: Callable[[Connection], Result], writes: bool) -> Result:
        with self._engine.connect() as connection:
            if writes:
                begin_for_writing(connection)
            with connection.begin():
                return work(connection)
