"""What of Slack is left alone for a while: in memory for the loop, in the database for everybody else."""

import logging
from collections.abc import Iterable
from datetime import datetime

from bot import clock
from bot.notify import DeliveryError, DeliveryKind
from bot.pauses import Pauses
from bot.store import troubles
from bot.store.writer import Store

log = logging.getLogger(__name__)

SLACK = troubles.SLACK


class Troubles:
    """Each is said once when it begins and once when it ends."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since: dict[str, datetime] = {}
        self._kinds: dict[str, DeliveryKind] = {}
        self._made_at = clock.now()
        self.pauses = Pauses()

    async def start(self) -> None:
        """An outage of Slack goes on over a start of ours; everything else is found again."""
        for known in await self._store.read(troubles.all_troubles):
            if known.name == SLACK:
                self._since[SLACK] = known.since
                self.pauses.resumed(SLACK, known.message, clock.monotonic_seconds())
            elif known.since < self._made_at:
                await self._end(known.name)

    def since(self, name: str) -> datetime | None:
        return self._since.get(name)

    def message(self, name: str) -> str:
        """What it was met with last; "" where there is no trouble."""
        trouble = self.pauses.troubles.get(name)
        return trouble.message if trouble else ""

    def seconds_left(self, *names: str) -> float:
        """Until none of them keeps us from trying; 0 when none does."""
        now = clock.monotonic_seconds()
        return max(self.pauses.seconds_left(name, now) for name in names)

    def kind_of(self, name: str) -> DeliveryKind | None:
        """What kind of failure it was met with last; None for no trouble, or one from before the last start."""
        return self._kinds.get(name)

    async def begin(self, name: str, error: DeliveryError, seconds: float | None) -> bool:
        """A pause of `seconds`, or longer with every failure; True for a new trouble."""
        message, self._kinds[name] = str(error), error.kind
        is_new = self.pauses.failed(name, message, clock.monotonic_seconds(), seconds)
        if is_new:
            log.warning("Slack does not take messages, they are kept; what=%s error=%s", name, message)
            self._since[name] = clock.now()
        await self.note(name, message)
        return is_new

    async def note(self, name: str, message: str) -> None:
        """For the bot's health only; stops nothing."""
        await self._store.write(lambda transaction: troubles.note(transaction.connection, name, message, clock.now()))

    async def note_or_end(self, name: str, why: str | None) -> None:
        """The same for a trouble that ends: `why` None."""
        if why is None:
            await self._end(name)
        else:
            await self.note(name, why)

    async def worked(self, names: Iterable[str]) -> None:
        for name in names:
            lasted = self.pauses.worked(name, clock.monotonic_seconds())
            if lasted is not None:
                log.info("Slack takes messages again; what=%s after_seconds=%.0f", name, lasted)
                await self._end(name)

    async def _end(self, name: str) -> None:
        self._since.pop(name, None)
        self._kinds.pop(name, None)
        await self._store.write(lambda transaction: troubles.end(transaction.connection, name))
