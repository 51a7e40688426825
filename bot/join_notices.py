"""A join that was refused is told to people: once for each token and hour, whatever starts and stops in between."""

import asyncio
import hashlib
import logging
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.broker import nodes
from bot.broker.enrolment import OTHER_NAME, RefusedJoin
from bot.render.notice import JOIN_REFUSED
from bot.store import outbox
from bot.store.writer import Store, Transaction

log = logging.getLogger(__name__)

# The last part of a sentence's key in the catalogue.
_WHYS = {
    nodes.USED: "used",
    nodes.OVER: "over",
    nodes.REPLACED: "replaced",
    nodes.OTHER_NODE: "other_node",
    nodes.REMOVED: "removed",
    OTHER_NAME: "other_name",
}
NOT_AGAIN_WITHIN = timedelta(hours=1)
MOST_WAITING = 100


class JoinNotices:
    """`refused` returns at once; `run` writes the notices, until cancelled."""

    def __init__(self, store: Store, channel: str) -> None:
        self._store = store
        self._channel = channel
        self._waiting: asyncio.Queue[RefusedJoin] = asyncio.Queue(MOST_WAITING)
        self._told_at: dict[str, datetime] = {}

    def refused(self, refused: RefusedJoin) -> None:
        """Somebody who tries again and again is one line here: what is over the bound is in the log."""
        now = clock.now()
        self._told_at = {key: at for key, at in self._told_at.items() if abs(now - at) < NOT_AGAIN_WITHIN}
        key = _name(refused)
        if key not in self._told_at and len(self._told_at) < MOST_WAITING and not self._waiting.full():
            self._told_at[key] = now
            self._waiting.put_nowait(refused)

    async def run(self) -> None:
        while True:
            refused = await self._waiting.get()
            try:
                await self.tell(refused, clock.now())
            except SQLAlchemyError as error:
                log.error("a refused join cannot be told to people node=%s error=%s", refused.node, error)

    async def tell(self, refused: RefusedJoin, now: datetime) -> None:
        """Writes the notice, unless there was one for this token within this hour by the clock."""
        key = f"join refused {_name(refused)} {int(now.timestamp() // NOT_AGAIN_WITHIN.total_seconds())}"
        why = _WHYS.get(refused.why, "unusable")
        values = {"node": refused.node, "why": why, "address": refused.address}

        def work(transaction: Transaction) -> None:
            if not outbox.is_wanted(transaction.connection, key):
                outbox.add_notice(transaction.connection, self._channel, JOIN_REFUSED, values, key, now)

        await self._store.write(work)


def _name(refused: RefusedJoin) -> str:
    """Of the token, or of the node where that is not known: reasons can be made up without end."""
    return hashlib.sha256((refused.token or refused.node).encode()).hexdigest()[:16]
