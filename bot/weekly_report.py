"""The weekly report: once for each week, whatever starts and stops in between."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo

from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.render.notice import WEEKLY_REPORT
from bot.store import outbox, reports
from bot.store.writer import Store, Transaction
from bot.weekly import Weekly, due

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 20.0


class WeeklyReports:
    def __init__(self, store: Store, weekly: Weekly, channel: str, zone: tzinfo, wake: Callable[[], None]) -> None:
        self._store = store
        self._weekly = weekly
        self._channel = channel
        self._zone = zone
        self._wake = wake

    async def run(self) -> None:
        while True:
            try:
                await self.look(clock.now())
            except SQLAlchemyError as error:
                log.error("the weekly report cannot be written, trying on error=%s", error)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def look(self, now: datetime) -> bool:
        """Whether a report was written down to be sent."""
        at = due(self._weekly, now, self._zone)
        if at is None or await self._store.read(lambda connection: outbox.is_wanted(connection, _key(at))):
            return False
        written = await self._store.write(lambda transaction: self._write(transaction, at, now))
        self._wake()
        return written

    def _write(self, transaction: Transaction, at: datetime, now: datetime) -> bool:
        """Not where nothing was recorded before that time: a bot that is new has no week behind it."""
        connection = transaction.connection
        if outbox.is_wanted(connection, _key(at)) or not reports.has_hours_before(connection, at):
            return False
        values = {"until": at.astimezone(UTC).isoformat()}
        outbox.add_notice(connection, self._channel, WEEKLY_REPORT, values, _key(at), now)
        return True


def _key(at: datetime) -> str:
    """By the day, so that a clock or a time that is changed a little sends no second one."""
    year, week, _ = at.isocalendar()
    return f"weekly report {year}-{week:02}"
