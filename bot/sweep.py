"""What happens by the clock: open incidents are judged again, old rows go."""

import asyncio
import logging
from datetime import timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.advance import Advance
from bot.config import Retention
from bot.probes.activity import Activity
from bot.store import retention
from bot.store.engine import why
from bot.store.writer import Store

log = logging.getLogger(__name__)

JUDGE_EVERY_SECONDS = 5.0
FORGET_EVERY = timedelta(hours=1)
FIRST_LOOK = timedelta(minutes=5)  # after a start: a bot that is started again every hour forgets, too
AT_ONCE = 1000  # windows in one transaction: about 20 ms


class Sweep:
    """`run` until cancelled. Judging is a monotonic loop: a wall clock that is set back must not stop it."""

    def __init__(self, store: Store, advance: Advance, retention: Retention, activity: Activity | None = None) -> None:
        self._activity = activity or Activity()
        self._store = store
        self._advance = advance
        self._retention = retention
        self._is_blind = False

    async def run(self, judge_every_seconds: float = JUDGE_EVERY_SECONDS) -> None:
        scheduler = AsyncIOScheduler(
            timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )
        every = min(FORGET_EVERY, self._retention.windows / 4)  # a demo keeps windows for seconds
        first = clock.now() + min(FIRST_LOOK, every)
        scheduler.add_job(self.forget_old, "interval", seconds=every.total_seconds(), next_run_time=first)
        scheduler.start()
        try:
            while True:
                await self._judge_open()
                await asyncio.sleep(judge_every_seconds)
        finally:
            scheduler.shutdown(wait=False)

    async def _judge_open(self) -> None:
        try:
            await self._advance.refresh_open()
            await self._advance.look_around()
            self._activity.judged()
        except SQLAlchemyError as error:
            if not self._is_blind:
                log.error("open incidents cannot be judged again, trying on error=%s", why(error))
            self._is_blind = True
        else:
            if self._is_blind:
                log.info("open incidents are judged again")
            self._is_blind = False

    async def forget_old(self) -> None:
        """Deletes what is older than the retention of the config."""
        now = clock.now()
        before = now - self._retention.windows, now - self._retention.hourly
        rows, gone = 0, AT_ONCE
        while gone >= AT_ONCE:  # in parts, so that clicks go in between
            gone = await self._store.write(
                lambda transaction: retention.forget_old(transaction.connection, *before, AT_ONCE)
            )
            rows += gone
        if rows:
            log.info("old rows deleted rows=%d", rows)
