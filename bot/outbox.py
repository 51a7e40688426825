"""Delivers what the database says must be in Slack: asks freshness again, sends, records; never twice."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from bot import clock
from bot.advance import Advance
from bot.fleet import Fleet
from bot.incident import CardState, Incident, Kind
from bot.judge.verdict import Presence
from bot.notify import DeliveryError, DeliveryKind, Notifier
from bot.pauses import LONG_PAUSE_SECONDS, Pauses
from bot.render import thread
from bot.render.card import Drawing, card
from bot.render.message import Message
from bot.render.words import Words
from bot.store import incidents, outbox
from bot.store.outbox import OutboxRow, RowKind, RowState
from bot.store.writer import Store, Transaction

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
NOT_FREE_YET = timedelta(seconds=2)
AFTER_A_BUG = timedelta(seconds=60)
CLOCKS_DIFFER_BY = timedelta(seconds=60)
SLACK = "slack"


class OutboxSettings(msgspec.Struct, frozen=True):
    """`channels` holds the channel's id by kind of incident."""

    channels: Mapping[Kind, str]
    edit_every: timedelta


class _Ready(msgspec.Struct, frozen=True):
    """A card that may go out now."""

    row: OutboxRow
    incident: Incident
    token: str
    possibly_twice: bool


class Outbox:
    """The loop that empties the outbox. One row after the other: at most one message is ever on its way."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        advance: Advance,
        notifier: Notifier,
        words: Words,
        settings: OutboxSettings,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._advance = advance
        self._notifier = notifier
        self._words = words
        self._settings = settings
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._possibly_twice: set[int] = set()
        self.pauses = Pauses()
        self.invalid_blocks = 0
        advance.on_outbox(self.wake)

    def wake(self) -> None:
        """Something was written: look now. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self) -> None:
        """Until it is cancelled; a row that was on its way then is found again at the next start."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            try:
                seconds = await self._turn()
            except Exception:
                log.exception("The outbox could not be read; trying again")
                seconds = LOOK_EVERY_SECONDS
            await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _turn(self) -> float:
        """Sends what is due; the seconds until it is worth looking again."""
        if left := self._seconds_left(SLACK):
            return left
        rows = await self._store.read(lambda connection: outbox.due(connection, clock.now()))
        for row in rows:
            if left := self._seconds_left(SLACK):
                return left
            await self._one(row)
        if rows:
            return 0.0
        next_at = await self._store.read(outbox.next_due_at)
        left = (next_at - clock.now()).total_seconds() if next_at else LOOK_EVERY_SECONDS
        return min(max(left, 0.0), LOOK_EVERY_SECONDS)

    async def _one(self, row: OutboxRow) -> None:
        """One row, so that its failure is its own."""
        try:
            if row.state is RowState.SENDING:
                await self._reconcile(row)
            elif row.kind is RowKind.CARD:
                await self._card(row)
            else:
                await self._line(row)
        except DeliveryError as error:
            await self._failed(row, error)
        except Exception:
            log.exception(
                "A delivery failed for a reason that nobody foresaw; row=%d incident=%d", row.id, row.incident_id
            )
            await self._hold(row, "a bug of ours, see the log", clock.now() + AFTER_A_BUG, maybe_sent=True)

    # --- cards ------------------------------------------------------------------------------------------------------

    async def _card(self, row: OutboxRow) -> None:
        incident = await self._store.read(lambda connection: incidents.load(connection, row.incident_id))
        if incident is None:
            await self._drop(row, "its incident is gone")
            return
        if await self._is_paused(row, self._channel(row, incident)):
            return
        if incident.closed_at is None:
            await self._advance.refresh(incident.node)
        free_now = self._free_now(incident.node)
        ready = await self._store.write(lambda transaction: self._prepare(transaction, row.id, free_now))
        if ready is not None:
            await self._send_card(ready, free_now)

    def _free_now(self, node: str) -> frozenset[str]:
        judged = self._fleet.judged(node)
        return frozenset(uuid for uuid, facts in judged.gpus.items() if facts.standing.presence is Presence.PRESENT)

    def _prepare(self, transaction: Transaction, row_id: int, free_now: frozenset[str]) -> _Ready | None:
        """The card as it stands after the refresh; None where it must wait, or is never said."""
        connection, now = transaction.connection, clock.now()
        row = outbox.row_of(connection, row_id)
        incident = incidents.load(connection, row.incident_id) if row else None
        if row is None or incident is None or row.state is not RowState.WAITING:
            return None
        if row.ts is None and incident.closed_at:
            outbox.drop(connection, row.id, "it was over before anybody heard of it")
            return None
        if row.ts is None and not _confirmed(incident) & free_now:
            outbox.postpone(connection, row.id, now + NOT_FREE_YET)
            return None
        token = incidents.button_token(connection, incident, now)
        return _Ready(row, incident, token, row.id in self._possibly_twice)

    async def _send_card(self, ready: _Ready, free_now: frozenset[str]) -> None:
        row, incident = ready.row, ready.incident
        drawing = Drawing(incident, ready.token, free_now, clock.now(), ready.possibly_twice)
        channel, message = self._channel(row, incident), card(self._words, drawing)
        if not await self._mark_sending(row):
            return
        ts = await self._delivered(row, channel, message)
        # A confirmed GPU that could not be called free this moment: the card is drawn again until it can be told.
        settled = incident.closed_at is not None or _confirmed(incident) <= free_now
        shown = replace(incident, revision=incident.revision if settled else incident.revision - 1)
        await self._mark_sent(row, channel, ts, shown)

    async def _delivered(self, row: OutboxRow, channel: str, message: Message) -> str:
        try:
            return await self._sent(row, channel, message)
        except DeliveryError as error:
            if error.kind is not DeliveryKind.INVALID_BLOCKS:
                raise
            self.invalid_blocks += 1
            log.error("Slack refused our blocks, the text goes alone; incident=%d error=%s", row.incident_id, error)
            return await self._sent(row, channel, replace(message, blocks=[]))

    async def _sent(self, row: OutboxRow, channel: str, message: Message) -> str:
        if row.ts is None:
            return await self._notifier.post(channel, message, row.delivery_key)
        await self._notifier.update(channel, row.ts, message)
        return row.ts

    # --- lines of a thread ------------------------------------------------------------------------------------------

    async def _line(self, row: OutboxRow) -> None:
        above = await self._store.read(lambda connection: outbox.card_of(connection, row.incident_id))
        if above is None or above.state is RowState.DROPPED or above.ts is None or above.channel is None:
            await self._drop(row, "it has no card")
            return
        if await self._is_paused(row, above.channel):
            return
        message = thread.line(self._words, row.line_key or "", row.line_values or {})
        if not await self._mark_sending(row):
            return
        ts = await self._notifier.post(above.channel, message, row.delivery_key, thread_ts=above.ts)
        await self._mark_sent(row, above.channel, ts, None)

    # --- rows that were on their way when the answer, or the bot, was lost -----------------------------------------

    async def _reconcile(self, row: OutboxRow) -> None:
        """Asks the channel before anything is posted again. An edit can simply be made again."""
        if row.ts is not None:
            await self._send_again(row)
            return
        above = await self._store.read(lambda connection: outbox.card_of(connection, row.incident_id))
        incident = await self._store.read(lambda connection: incidents.load(connection, row.incident_id))
        if above is None or incident is None:
            await self._drop(row, "its incident is gone")
            return
        channel = above.channel or self._channel(row, incident)
        thread_ts = above.ts if row.kind is RowKind.THREAD else None
        ts = await self._found(row, channel, thread_ts)
        if ts is None:
            await self._send_again(row)
        else:  # nobody knows which revision a card found shows: it is drawn again
            shown = replace(incident, revision=0, decision_revision=0) if row.kind is RowKind.CARD else None
            await self._mark_sent(row, channel, ts, shown)

    async def _found(self, row: OutboxRow, channel: str, thread_ts: str | None) -> str | None:
        oldest = (row.attempt_at or row.created_at) - CLOCKS_DIFFER_BY
        try:
            return await self._notifier.find(channel, row.delivery_key, oldest, thread_ts)
        except DeliveryError as error:
            if error.kind not in (DeliveryKind.SCOPE, DeliveryKind.CHANNEL, DeliveryKind.GONE, DeliveryKind.REFUSED):
                raise
            log.warning("A post may be there twice: the history cannot be read; row=%d error=%s", row.id, error)
            self._possibly_twice.add(row.id)
            return None

    async def _send_again(self, row: OutboxRow) -> None:
        await self._store.write(
            lambda transaction: outbox.mark_failed(transaction.connection, row.id, row.last_error or "", clock.now())
        )

    # --- what came of it --------------------------------------------------------------------------------------------

    async def _mark_sending(self, row: OutboxRow) -> bool:
        return await self._store.write(
            lambda transaction: outbox.mark_sending(transaction.connection, row.id, clock.now())
        )

    async def _mark_sent(self, row: OutboxRow, channel: str, ts: str, shown: Incident | None) -> None:
        """Slack has it, a card as `shown`. A decision that was taken meanwhile is shown at once."""
        self._possibly_twice.discard(row.id)
        for name in (SLACK, channel, _method(row), _name(row)):
            self._worked(name)

        def work(transaction: Transaction) -> None:
            connection, now = transaction.connection, clock.now()
            present = incidents.load(connection, row.incident_id)
            decided = bool(shown and present and present.decision_revision != shown.decision_revision)
            again_at = now if decided else now + self._settings.edit_every
            outbox.mark_sent(connection, row.id, channel, ts, shown.revision if shown else 1, now, again_at)

        await self._store.write(work)

    async def _failed(self, row: OutboxRow, error: DeliveryError) -> None:
        """What Slack did decides who has to wait: this row, its channel, the method, or everything."""
        kind, now = error.kind, clock.now()
        if kind is DeliveryKind.GONE:
            log.warning("A message is gone from Slack, nothing more is said there; incident=%d", row.incident_id)
            await self._drop(row, str(error))
            return
        if kind is DeliveryKind.UNEDITABLE:
            log.warning("A card can no longer be edited; incident=%d error=%s", row.incident_id, error)
            await self._store.write(lambda transaction: _uneditable(transaction.connection, row, str(error)))
            return
        name, seconds = await self._scope_of(row, error)
        self._trouble(name, str(error), seconds)
        retry_at = now + timedelta(seconds=self._seconds_left(name))
        await self._hold(row, str(error), retry_at, maybe_sent=kind is DeliveryKind.UNSURE)

    async def _scope_of(self, row: OutboxRow, error: DeliveryError) -> tuple[str, float | None]:
        """The name of what must wait, and for how long where that does not grow."""
        if error.kind in (DeliveryKind.UNREACHABLE, DeliveryKind.UNSURE):
            return SLACK, None
        if error.kind is DeliveryKind.RATE_LIMITED:
            return error.method, error.retry_after_seconds
        if error.kind is DeliveryKind.CHANNEL:
            incident = await self._store.read(lambda connection: incidents.load(connection, row.incident_id))
            return (self._channel(row, incident) if incident else SLACK), LONG_PAUSE_SECONDS
        if error.kind in (DeliveryKind.TOKEN, DeliveryKind.SCOPE):
            return SLACK, LONG_PAUSE_SECONDS
        return _name(row), LONG_PAUSE_SECONDS

    async def _drop(self, row: OutboxRow, why: str) -> None:
        await self._store.write(lambda transaction: outbox.drop(transaction.connection, row.id, why))

    async def _hold(self, row: OutboxRow, error: str, retry_at: datetime, *, maybe_sent: bool) -> None:
        """The row waits. One that may be in Slack stays SENDING and is looked for first; see `_reconcile`."""

        def work(transaction: Transaction) -> None:
            present = outbox.row_of(transaction.connection, row.id)
            unsure = present is not None and present.state is RowState.SENDING and present.ts is None
            if unsure and (maybe_sent or row.state is RowState.SENDING):
                outbox.mark_unsure(transaction.connection, row.id, error, retry_at)
            else:
                outbox.mark_failed(transaction.connection, row.id, error, retry_at)

        await self._store.write(work)

    # --- who waits for what -----------------------------------------------------------------------------------------

    async def _is_paused(self, row: OutboxRow, channel: str) -> bool:
        left = max(self._seconds_left(channel), self._seconds_left(_method(row)))
        if left:
            until = clock.now() + timedelta(seconds=left)
            await self._store.write(lambda transaction: outbox.postpone(transaction.connection, row.id, until))
        return left > 0

    def _seconds_left(self, name: str) -> float:
        return self.pauses.seconds_left(name, clock.monotonic_seconds())

    def _trouble(self, name: str, message: str, seconds: float | None) -> None:
        if self.pauses.failed(name, message, clock.monotonic_seconds(), seconds):
            log.warning("Slack does not take messages, they are kept; what=%s error=%s", name, message)

    def _worked(self, name: str) -> None:
        lasted = self.pauses.worked(name, clock.monotonic_seconds())
        if lasted is not None:
            log.info("Slack takes messages again; what=%s after_seconds=%.0f", name, lasted)

    def _channel(self, row: OutboxRow, incident: Incident) -> str:
        return row.channel or self._settings.channels[incident.kind]


def _method(row: OutboxRow) -> str:
    return "chat.postMessage" if row.ts is None else "chat.update"


def _name(row: OutboxRow) -> str:
    return f"row {row.id}"


def _confirmed(incident: Incident) -> frozenset[str]:
    return frozenset(gpu.uuid for gpu in incident.gpus if gpu.state is CardState.CONFIRMED)


def _uneditable(connection: Connection, row: OutboxRow, error: str) -> None:
    present = outbox.row_of(connection, row.id)
    if present is not None:
        outbox.mark_uneditable(connection, row.id, present.wanted_revision, error)
