"""App Home: drawn when somebody opens it."""

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from bot import clock
from bot.act.lists import ApproverLists
from bot.health import health
from bot.incident import Incident
from bot.notify import DeliveryError, Notifier
from bot.offer import Offer
from bot.remedy.approvers import refusal
from bot.remedy.model import State
from bot.render.home import MOST_LINES, MOST_MINE, Home, Mine, Rights, Wanted, Wrong, home
from bot.render.message import Message
from bot.render.words import Mrkdwn, Words
from bot.slack.queries import Queries
from bot.store import claims, incidents
from bot.store.writer import Store

log = logging.getLogger(__name__)


class Homes:
    """`show` never raises for what Slack does."""

    def __init__(
        self, store: Store, queries: Queries, notifier: Notifier, words: Words, lists: ApproverLists | None = None
    ) -> None:
        """`lists` None: nobody approves anything. `sockets` is set where there are any."""
        self.sockets: Callable[[], tuple[int, int]] | None = None
        self._lists = lists
        self._store = store
        self._queries = queries
        self._notifier = notifier
        self._words = words

    async def show(self, user: str, said: Message | None = None) -> None:
        """`said` answers what the person pressed there."""
        try:
            shown = await self._home(user)
            if said is not None:
                shown = replace(shown, said=Mrkdwn(said.text.partition("\n")[0]))
            await self._notifier.publish_home(user, home(self._words, shown))
        except DeliveryError as error:
            log.warning("App Home could not be shown; error=%s", error)

    async def _home(self, user: str) -> Home:
        now, nodes = clock.now(), self._queries.nodes()
        found = self._queries.open_incidents()
        mine = [one for one in found if user in (one.acknowledged_by, *one.mentions)][:MOST_MINE]
        quiet = [one for one in found if one.quiet is not None][:MOST_LINES]
        state = await self._store.read(lambda connection: health(connection, now))
        return Home(
            free=sum(one.offer is Offer.FREE for one in await self._queries.offered(nodes)),
            nodes=len(nodes),
            still_open=len(found),
            mine=[await self._mine(one) for one in mine],
            quiet=[(one, await self._queries.title(one)) for one in quiet],
            wrong=[Wrong(red.name, red.why, red.since, red.key, red.count) for red in state.reds],
            waiting=state.waiting,
            now=now,
            wanted=[await self._wanted(one) for one in found if await self._may_approve(user, one)],
            claims=await self._store.read(lambda connection: claims.claims_of_user(connection, user, now)),
            rights=await self._rights(user, nodes),
            sockets=self.sockets() if self.sockets else None,
        )

    async def _rights(self, user: str, nodes: Sequence[str]) -> Rights:
        return Rights(len(nodes), sum([await self._approves(user, node) for node in nodes]))

    async def _may_approve(self, user: str, incident: Incident) -> bool:
        remedy = incident.remedy
        if remedy is None or remedy.state is not State.ASKED or self._lists is None:
            return False
        await self._lists.refresh(remedy.node, user)
        return refusal(remedy, user, self._lists.of(remedy.node)) is None

    async def _approves(self, user: str, node: str) -> bool:
        return self._lists is not None and await self._lists.approves(user, node)

    async def _wanted(self, incident: Incident) -> Wanted:
        mine = await self._mine(incident)
        return Wanted(mine.incident, mine.title, mine.token)

    async def _mine(self, incident: Incident) -> Mine:
        now = clock.now()
        token = await self._store.write(
            lambda transaction: incidents.button_token(transaction.connection, incident, now)
        )
        return Mine(incident, await self._queries.title(incident), token)
