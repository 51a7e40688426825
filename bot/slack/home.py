"""App Home: drawn when somebody opens it."""

import logging

from bot import clock
from bot.health import health
from bot.incident import Incident
from bot.notify import DeliveryError, Notifier
from bot.offer import Offer
from bot.render.home import MOST_LINES, MOST_MINE, Home, Mine, Wrong, home
from bot.render.words import Words
from bot.slack.queries import Queries
from bot.store import incidents
from bot.store.writer import Store

log = logging.getLogger(__name__)


class Homes:
    """`show` never raises for what Slack does."""

    def __init__(self, store: Store, queries: Queries, notifier: Notifier, words: Words) -> None:
        self._store = store
        self._queries = queries
        self._notifier = notifier
        self._words = words

    async def show(self, user: str) -> None:
        try:
            await self._notifier.publish_home(user, home(self._words, await self._home(user)))
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
            wrong=[Wrong(red.name, red.why, red.since) for red in state.reds],
            waiting=state.waiting,
            now=now,
        )

    async def _mine(self, incident: Incident) -> Mine:
        now = clock.now()
        token = await self._store.write(
            lambda transaction: incidents.button_token(transaction.connection, incident, now)
        )
        return Mine(incident, await self._queries.title(incident), token)
