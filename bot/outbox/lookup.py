"""Rows that were on their way when the answer, or the bot, was lost: the channel is asked before they go again."""

import logging

from msgspec.structs import replace

from bot import clock
from bot.incident import Incident
from bot.notify import DeliveryError, DeliveryKind, Notifier
from bot.outbox.delivery import Delivery, frozen_key
from bot.outbox.strays import CLOCKS_DIFFER_BY
from bot.store import outbox
from bot.store.outbox import OutboxRow, RowKind
from bot.store.writer import Store, Transaction

log = logging.getLogger(__name__)

_UNREADABLE = (DeliveryKind.SCOPE, DeliveryKind.CHANNEL, DeliveryKind.GONE, DeliveryKind.REFUSED)


class Lookup:
    """Raises DeliveryError while Slack cannot be asked."""

    def __init__(self, store: Store, notifier: Notifier, delivery: Delivery) -> None:
        self._store = store
        self._notifier = notifier
        self._delivery = delivery

    async def reconcile(self, row: OutboxRow, incident: Incident | None, above: OutboxRow | None, home: str) -> None:
        """An edit can simply be made again."""
        if row.ts is not None and not row.is_frozen:
            await self._send_again(row, maybe_there=False)
            return
        channel = row.channel or (above.channel if above else None)
        channel = channel or (self._delivery.channel(row, incident) if incident else home)
        try:
            ts, revision = await self._found(row, channel, above)
        except DeliveryError as error:
            if error.kind not in _UNREADABLE:
                raise
            log.warning("A post may be there twice: the history cannot be read; row=%d error=%s", row.id, error)
            await self._send_again(row, maybe_there=True)
            return
        if ts is None:
            await self._send_again(row, maybe_there=False)
        else:  # nobody knows which revision a card found shows: it is drawn again
            shown = replace(incident, revision=revision, decision_revision=0) if _is_card(row) and incident else None
            await self._delivery.mark_sent(_as_found(row), channel, row.ts or ts, shown, 0)

    async def _found(self, row: OutboxRow, channel: str, above: OutboxRow | None) -> tuple[str | None, int]:
        """The message's ts, None where it is not there; and the revision that it shows, 0 where nobody knows."""
        oldest = (row.attempt_at or row.created_at) - CLOCKS_DIFFER_BY
        if not row.is_frozen:
            thread_ts = above.ts if above and row.kind is RowKind.THREAD else None
            return await self._notifier.find(channel, row.delivery_key, oldest, thread_ts), 0
        for revision in range(row.wanted_revision, row.sent_revision, -1):
            if ts := await self._notifier.find(channel, frozen_key(row, revision), oldest, row.ts):
                return ts, revision
        return None, 0

    async def _send_again(self, row: OutboxRow, *, maybe_there: bool) -> None:
        def work(transaction: Transaction) -> None:
            outbox.mark_failed(transaction.connection, row.id, row.last_error or "", clock.now())
            if maybe_there:
                outbox.mark_possibly_twice(transaction.connection, row.id)

        await self._store.write(work)


def _as_found(row: OutboxRow) -> OutboxRow:
    """A notice that was changed since may show what it said before: it is edited once more."""
    return replace(row, wanted_revision=max(row.wanted_revision - 1, 1)) if row.kind is RowKind.NOTICE else row


def _is_card(row: OutboxRow) -> bool:
    return row.kind is RowKind.CARD
