"""The bot's outward half on a real database and a Slack workspace on loopback, for tests."""

import asyncio
import contextlib
import itertools
from datetime import timedelta

import sqlalchemy as sa

from bot import clock
from bot.health import health
from bot.incident import Kind
from bot.ingest import Arrived, Ingest
from bot.judge.verdict import Presence
from bot.notify import Notifier, make_client
from bot.outbox import Outbox, OutboxSettings
from bot.render.words import words
from bot.store import incidents, outbox, schema
from bot.store.outbox import RowKind, RowState
from tests.bot.build_incidents import finding
from tests.build import FIRST_WINDOW, START, heartbeat, observation
from wire.messages import Verdict, encode

C, H, U = Verdict.CANDIDATE, Verdict.HELD, Verdict.UNKNOWN
GONE = Presence.ABSENT
LAST = FIRST_WINDOW + 2


class Bot:
    """The parts between the stream and Slack, on one database; `start` as often as one likes, as after a crash."""

    def __init__(
        self, store, fleet, advance, workspace, edit_every=timedelta(0), client=None, language="en", **settings
    ):
        self.store, self.fleet, self.advance = store, fleet, advance
        self.ingest = Ingest(store, fleet, advance)
        channels = dict.fromkeys((Kind.CANDIDATE, Kind.FLEET), workspace.channel("gpu-candidates").id)
        home = workspace.channel("gpu-oncall").id
        settings = OutboxSettings(channels, edit_every, home, **{"paces": {}, **settings})
        self.notifier = Notifier(client or make_client(workspace.bot_token, workspace.api_url, store))
        self.outbox = Outbox(store, advance, self.notifier, words(language), settings)
        self.tasks, self._seq = [], 0

    def start(self):
        self.tasks.append(asyncio.create_task(self.outbox.run()))

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def report(self, *observations):
        for one in observations:
            self._seq += 1
            await self.ingest.take("OBS", START, [Arrived(f"gpuoncall.obs.{one.node}", self._seq, encode(one))])

    async def idle(self, verdicts=(C,)):
        """Three idle windows and a fresh heartbeat: free now."""
        self.fleet.heard(heartbeat(LAST, verdicts))
        await self.report(*(observation(FIRST_WINDOW + i, verdicts) for i in range(3)))

    async def sample(self, verdicts, last=LAST):
        self.fleet.heard(heartbeat(last, verdicts))
        await self.advance.refresh("gpu-01")

    async def found(self, presence=Presence.PRESENT, subject="gpu-07/chat", **changes):
        """A runner of that name is stalled; or, ABSENT, works again."""
        await self.advance.found(finding(presence=presence, subject=subject, **changes))

    async def health(self):
        return await self.store.read(lambda connection: health(connection, clock.now()))

    async def red(self):
        """The names of what is red."""
        return [red.name for red in (await self.health()).reds]

    async def rows(self, kind=RowKind.CARD):
        return await rows_of_kind(self.store, kind)


async def rows_of_kind(store, kind=RowKind.CARD):
    """The outbox as it is, in the order in which rows were made."""

    def work(connection):
        mine = sa.select(schema.outbox.c.id).where(schema.outbox.c.kind == kind).order_by(schema.outbox.c.id)
        return [outbox.row_of(connection, row_id) for row_id in connection.execute(mine).scalars()]

    return await store.read(work)


async def everything(store):
    return await store.read(lambda connection: incidents.recent(connection, 1000))


SEQ = itertools.count(1)


async def become_free(fleet, ingest, node):
    fleet.heard(heartbeat(FIRST_WINDOW + 2, node=node, sent_at=clock.now()))
    for i in range(3):
        one = observation(FIRST_WINDOW + i, node=node)
        await ingest.take("OBS", START, [Arrived(f"gpuoncall.obs.{node}", next(SEQ), encode(one))])


@contextlib.contextmanager
def locked(store):
    """By another writer; whoever connects from now on waits for it only 50 ms."""
    store.engine.dispose()
    sa.event.listen(store.engine, "connect", lambda raw, _: raw.execute("PRAGMA busy_timeout=50"))
    with store.engine.connect().execution_options(writes=True) as holder:
        holder.execute(sa.text("SELECT 1"))
        yield


async def until(condition, seconds=20.0):
    """Waits for a state that only the database knows."""
    async with asyncio.timeout(seconds):
        while True:
            if value := await condition():
                return value
            await asyncio.sleep(0.01)


async def sent(bot, kind=RowKind.CARD):
    async def all_sent():
        rows = await bot.rows(kind)
        return rows and all(row.state is RowState.SENT for row in rows) and rows

    return await until(all_sent)


def titles(channel):
    return [card.text.split("\n")[0] for card in channel.cards]


async def no_row(bot, states=(RowState.WAITING, RowState.SENDING)):
    rows = [*await bot.rows(), *await bot.rows(RowKind.THREAD), *await bot.rows(RowKind.NOTICE)]
    return not [row for row in rows if row.state in states]


async def nothing_red(bot):
    return await bot.red() == []


async def told(bot, name):
    return name in await bot.red()
