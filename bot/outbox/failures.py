"""What a failed delivery comes to: who waits for what, where the message goes instead, and what is said about it."""

import logging
import secrets
from datetime import datetime, timedelta

from bot import clock
from bot.incident import Incident, Urgency
from bot.notify import DeliveryError, DeliveryKind
from bot.outbox.delivery import Delivery
from bot.outbox.settings import OutboxSettings
from bot.outbox.troubles import SLACK, Troubles
from bot.pauses import LONG_PAUSE_SECONDS
from bot.store import outbox, troubles
from bot.store.outbox import OutboxRow, RowKind, RowState
from bot.store.writer import Store, Transaction

log = logging.getLogger(__name__)

_ALL_OF_SLACK = {
    DeliveryKind.UNREACHABLE: None,
    DeliveryKind.UNSURE: None,
    DeliveryKind.TOKEN: LONG_PAUSE_SECONDS,
    DeliveryKind.SCOPE: LONG_PAUSE_SECONDS,
}


class Failures:
    """One method per kind of failure that is not only a wait."""

    def __init__(self, store: Store, delivery: Delivery, settings: OutboxSettings, troubles: Troubles) -> None:
        self._store = store
        self._delivery = delivery
        self._settings = settings
        self._troubles = troubles

    async def take(self, row: OutboxRow, incident: Incident | None, error: DeliveryError) -> None:
        """What Slack did decides who has to wait: this row, its channel, the method, or everything."""
        kind = error.kind
        if kind not in _ALL_OF_SLACK:
            await self._troubles.worked([SLACK])  # it answers
        if kind is DeliveryKind.GONE:
            await self._gone(row, incident, error)
        elif kind is DeliveryKind.UNEDITABLE:
            log.warning("A card can no longer be edited, changes go into its thread; row=%d error=%s", row.id, error)
            await self._store.write(
                lambda transaction: outbox.freeze(transaction.connection, row.id, str(error), clock.now())
            )
        elif kind is DeliveryKind.CHANNEL:
            await self._shut(row, incident, error)
        elif kind in _ALL_OF_SLACK:
            await self._wait_for(row, SLACK, error, _ALL_OF_SLACK[kind])
        elif kind is DeliveryKind.RATE_LIMITED:
            await self._wait_for(row, error.method, error, error.retry_after_seconds)
        else:
            await self._wait_for(row, troubles.of_row(row.id), error, LONG_PAUSE_SECONDS)

    async def _wait_for(self, row: OutboxRow, what: str, error: DeliveryError, seconds: float | None) -> None:
        await self._troubles.begin(what, error, seconds)
        retry_at = clock.now() + timedelta(seconds=self._troubles.seconds_left(what))
        await self.hold(row, str(error), retry_at, maybe_sent=error.kind is DeliveryKind.UNSURE)

    async def _gone(self, row: OutboxRow, incident: Incident | None, error: DeliveryError) -> None:
        """Somebody deleted it. A problem that people must know of is said once more; everything else is let go."""
        again = row.kind is RowKind.CARD and not row.was_reposted and self._must_be_seen(incident)
        then = "it is posted once more" if again else "nothing more is said there"
        log.warning("A message is gone from Slack, %s; row=%d", then, row.id)

        def work(transaction: Transaction) -> None:
            if again:
                outbox.post_anew(transaction.connection, row.id, secrets.token_hex(16), str(error), clock.now())
            else:
                outbox.drop(transaction.connection, row.id, str(error))

        await self._store.write(work)

    async def _shut(self, row: OutboxRow, incident: Incident | None, error: DeliveryError) -> None:
        """Nothing can be said in this channel. The home channel takes what is new, and what must be seen."""
        channel = row.channel or (self._delivery.channel(row, incident) if incident else self._settings.home)
        home, now = self._settings.home, clock.now()
        is_new = await self._troubles.begin(channel, error, LONG_PAUSE_SECONDS)
        retry_at = now + timedelta(seconds=self._troubles.seconds_left(channel))
        moves = channel != home and row.kind is RowKind.CARD
        moves = moves and (row.ts is None or self._must_be_seen(incident))

        def work(transaction: Transaction) -> None:
            connection = transaction.connection
            if is_new and channel != home:
                values = {"channel": channel, "error": str(error)}
                outbox.add_notice(connection, home, "notice.channel", values, secrets.token_hex(16), now)
            if moves and row.ts is not None:
                outbox.post_anew(connection, row.id, secrets.token_hex(16), str(error), now)
            if moves:
                outbox.move(connection, row.id, home, str(error), now)

        await self._store.write(work)
        if not moves:
            await self.hold(row, str(error), retry_at, maybe_sent=False)

    def _must_be_seen(self, incident: Incident | None) -> bool:
        return incident is not None and incident.urgency <= Urgency.CRITICAL

    async def hold(self, row: OutboxRow, error: str, retry_at: datetime, *, maybe_sent: bool) -> None:
        """The row waits. One that may be in Slack stays SENDING and is looked for first."""

        def work(transaction: Transaction) -> None:
            present = outbox.row_of(transaction.connection, row.id)
            is_post = present is not None and (present.ts is None or present.is_frozen)
            unsure = present is not None and present.state is RowState.SENDING and is_post
            if unsure and (maybe_sent or row.state is RowState.SENDING):
                outbox.mark_unsure(transaction.connection, row.id, error, retry_at)
            else:
                outbox.mark_failed(transaction.connection, row.id, error, retry_at)

        await self._store.write(work)
