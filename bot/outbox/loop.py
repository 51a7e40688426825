"""The loop that empties the outbox, the most urgent row first."""

import asyncio
import logging
import secrets
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.advance import Advance
from bot.notify import AUTH_TEST, DeliveryError, DeliveryKind, Notifier
from bot.outbox.delivery import Delivery
from bot.outbox.failures import Failures
from bot.outbox.lookup import Lookup
from bot.outbox.settings import POST, UPDATE, OutboxSettings
from bot.outbox.troubles import SLACK, Troubles
from bot.pauses import LONG_PAUSE_SECONDS
from bot.render.words import Words
from bot.store import backlog, incidents, outbox
from bot.store.engine import why
from bot.store.outbox import OutboxRow, RowKind, RowState
from bot.store.writer import Store

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
AFTER_A_BUG = timedelta(seconds=60)
ASK_AGAIN_SECONDS = 30.0
LONGEST_WAIT = timedelta(minutes=10)  # of any row, by a clock that is right
SET_BACK = timedelta(seconds=2)  # less is a clock that is kept right, and cuts nobody's time to gather


class Outbox:
    """One row after the other: at most one message is ever on its way."""

    def __init__(
        self,
        store: Store,
        advance: Advance,
        notifier: Notifier,
        words: Words,
        settings: OutboxSettings,
    ) -> None:
        self._store = store
        self._settings = settings
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_blind = False
        self._notifier = notifier
        self._is_known = False
        self._ask_at_seconds = 0.0  # on the monotonic clock
        self._looked_at: datetime | None = None
        self.troubles = Troubles(store)
        self.delivery = Delivery(store, advance, notifier, words, settings, self.troubles)
        self._lookup = Lookup(store, notifier, self.delivery)
        self._failures = Failures(store, self.delivery, settings, self.troubles)
        advance.on_outbox(self.wake)

    def wake(self) -> None:
        """Something was written: look now. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self) -> None:
        """Until it is cancelled; a row that was on its way then is found again at the next start."""
        self._loop = asyncio.get_running_loop()
        has_started = False
        while True:
            self._wake.clear()
            try:
                if not has_started:
                    await self.troubles.start()
                    has_started = True
                seconds = await self.turn()
                self._says_blind(None)
            except Exception as error:
                self._says_blind(error)
                seconds = LOOK_EVERY_SECONDS
            await self._wait(seconds)

    def _says_blind(self, error: Exception | None) -> None:
        """The database is locked, full or away: said once, and once when it is back. Nothing is lost by it."""
        if error is not None and not self._is_blind:
            trace = None if isinstance(error, SQLAlchemyError) else error
            log.error("The outbox could not be read; trying again error=%s", why(error), exc_info=trace)
        elif error is None and self._is_blind:
            log.info("The outbox can be read again")
        self._is_blind = error is not None

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def turn(self) -> float:
        """Sends the most urgent row that is due; the seconds until it is worth looking again."""
        if left := self.troubles.seconds_left(SLACK):
            return min(left, LOOK_EVERY_SECONDS)
        await self._wake_where_set_back()
        await self._want_catch_up()
        await self._introduce()
        posts, edits = self._seconds_left(POST), self._seconds_left(UPDATE)
        may = {"posts": not posts, "edits": not edits}
        rows = await self._store.read(lambda connection: outbox.due(connection, clock.now(), limit=1, **may))
        for row in rows:
            await self._one(row)
        if rows:
            return 0.0
        next_at = await self._store.read(lambda connection: outbox.next_due_at(connection, **may))
        left = (next_at - clock.now()).total_seconds() if next_at else LOOK_EVERY_SECONDS
        return min([max(left, 0.0), LOOK_EVERY_SECONDS, *(paused for paused in (posts, edits) if paused)])

    def _seconds_left(self, method: str) -> float:
        return max(
            self.troubles.seconds_left(method), self.delivery.paces.seconds_left(method, clock.monotonic_seconds())
        )

    async def _wake_where_set_back(self) -> None:
        """A clock that was set back, before this start too, must not keep cards at an old word for hours."""
        before, now = self._looked_at, clock.now()
        self._looked_at = now
        if before is None or now < before - SET_BACK:
            longest = LONGEST_WAIT if before is None else timedelta(0)
            await self._store.write(lambda transaction: backlog.wake(transaction.connection, now, longest))

    async def _want_catch_up(self) -> None:
        """After a long outage the first message is a notice about it, which also tries whether it is over."""
        since = self.troubles.since(SLACK)
        if since is None or clock.now() - since < self._settings.long_outage:
            return
        await self._store.write(
            lambda transaction: backlog.want_catch_up(
                transaction.connection, self._settings.home, since, secrets.token_hex(16), clock.now()
            )
        )

    async def _introduce(self) -> None:
        """A wrong bot token is said at the start: the first card, which would find it out, may come hours later."""
        if self._is_known or clock.monotonic_seconds() < self._ask_at_seconds:
            return
        try:
            await self._notifier.identity()
            self._is_known = True
            if self.troubles.message(SLACK).startswith(AUTH_TEST):  # every other trouble ends with what it kept waiting
                await self.troubles.worked([SLACK])
        except DeliveryError as error:
            if error.kind is DeliveryKind.TOKEN:
                await self.troubles.begin(SLACK, error, LONG_PAUSE_SECONDS)
            self._ask_at_seconds = clock.monotonic_seconds() + ASK_AGAIN_SECONDS

    async def _one(self, row: OutboxRow) -> None:
        """One row, so that its failure is its own."""
        incident_id = row.incident_id
        incident = above = None
        try:
            if incident_id is not None:
                incident = await self._store.read(lambda connection: incidents.load(connection, incident_id))
                above = await self._store.read(lambda connection: outbox.card_of(connection, incident_id))
            if row.state is RowState.SENDING:
                await self._lookup.reconcile(row, incident, above, self._settings.home)
            elif row.kind is RowKind.NOTICE:
                await self.delivery.notice(row)
            elif row.kind is RowKind.THREAD:
                await self.delivery.line(row, above)
            elif incident is not None:
                await self.delivery.card(row, incident)
        except DeliveryError as error:
            await self._failures.take(row, incident, error)
        except SQLAlchemyError:
            raise
        except Exception:
            log.exception("A delivery failed for a reason that nobody foresaw; row=%d incident=%s", row.id, incident_id)
            retry_at = clock.now() + AFTER_A_BUG
            await self._failures.hold(row, "a bug of ours, see the log", retry_at, maybe_sent=True)
