"""Critical cards that Slack does not take go out by the second path: once when they open, once when they are over."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from bot import clock
from bot.fallback import Fallback
from bot.incident import Incident, Urgency
from bot.notify import DeliveryKind
from bot.outbox.troubles import SLACK, Troubles
from bot.render.message import Message
from bot.render.plain import plain_text
from bot.render.words import Words
from bot.store import backlog, incidents
from bot.store.outbox import OutboxRow, Told
from bot.store.writer import Store

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 5.0
AFTER = timedelta(minutes=2)
AGAIN_AFTER_SECONDS = 60.0
FOR_GOOD = (DeliveryKind.TOKEN, DeliveryKind.SCOPE)  # until a person mends it: there is nothing to wait for

Draw = Callable[[Incident], Awaitable[Message]]


class SecondPath:
    """A loop of its own: Slack's silence must not stop it."""

    def __init__(
        self, store: Store, fallback: Fallback, troubles: Troubles, words: Words, draw: Draw, after: timedelta = AFTER
    ) -> None:
        self._store = store
        self._fallback = fallback
        self._troubles = troubles
        self._words = words
        self._draw = draw
        self._after = after

    async def run(self) -> None:
        if not self._fallback.is_there:
            return
        while True:
            try:
                seconds = await self.turn()
            except Exception:
                log.exception("The second path could not look at the outbox; trying again")
                seconds = LOOK_EVERY_SECONDS
            await asyncio.sleep(seconds)

    async def turn(self) -> float:
        """Tells what has waited too long; the seconds until the next look."""
        is_for_good = self._troubles.kind_of(SLACK) in FOR_GOOD
        before = clock.now() - (timedelta() if is_for_good else self._after)
        rows = await self._store.read(lambda connection: backlog.unheard(connection, Urgency.CRITICAL, before))
        for row in rows:
            if not await self._tell(row):
                return AGAIN_AFTER_SECONDS
        return LOOK_EVERY_SECONDS

    async def _tell(self, row: OutboxRow) -> bool:
        incident_id = row.incident_id
        assert incident_id is not None
        incident = await self._store.read(lambda connection: incidents.load(connection, incident_id))
        if incident is None or incident.quiet is not None or not incident.wakes_people:
            return True
        title, text = plain_text(await self._draw(incident))
        head = self._words.plain("fallback.title", title=title)
        if not await self._fallback.tell(head, text):
            return False
        told = Told.CLOSED if incident.closed_at else Told.OPENED
        log.warning("A card went out by the second path; incident=%d state=%s", incident_id, told)
        await self._store.write(lambda transaction: backlog.mark_told(transaction.connection, row.id, told))
        return True
