"""Slack fails at random while a hundred incidents are open and people press: in the end every card is right, once."""

import asyncio
import html
import itertools
import random
from datetime import timedelta

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance, AdvanceSettings
from bot.judge.verdict import Presence
from bot.outbox.settings import PACES
from bot.pauses import Paces
from bot.render.words import words
from bot.slack.queries import Queries
from bot.store import incidents, schema
from bot.store.outbox import RowKind, RowState
from demo.workspace import Workspace
from tests.bot.outward import until
from tests.bot.slack_bot import SlackBot

VERDICTS = ("stalled", "down", "erroring", "load_stuck", "uncertain")
METHODS = ("chat.postMessage", "chat.update", "conversations.history", "conversations.replies", "response_url", "*")
SEVERAL = 15  # fewer than a storm


class Chaos:
    """`seconds` of faults, changes and presses at random moments, on `count` incidents."""

    def __init__(self, bot, workspace, count, seconds, seed):
        self.bot, self.workspace, self.count, self.seconds = bot, workspace, count, seconds
        self.chance = random.Random(seed)
        self.presses = []

    async def open_all(self):
        for number in range(self.count):
            await self.bot.found(subject=self.subject(number))
            if number % SEVERAL == SEVERAL - 1:
                await self.grow_old()
        await self.grow_old()

    async def grow_old(self):
        """What people heard of, they heard an hour ago, so that it is no storm."""
        long_ago = clock.now() - timedelta(hours=1)

        def work(transaction):
            connection = transaction.connection
            for one in incidents.all_open(connection):
                if one.said_at is not None and one.said_at > long_ago:
                    incidents.save(connection, one, replace(one, opened_at=long_ago, said_at=long_ago))
            said = schema.incident.c.said_at.is_not(None)
            connection.execute(sa.update(schema.incident).where(said).values(said_at=long_ago))

        await self.bot.store.write(work)
        await self.bot.advance.start()

    def subject(self, number):
        return f"gpu-{number:03}/chat"

    async def run(self, pause_seconds):
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        while loop.time() < end:
            await self.chance.choice((self.fail, self.change, self.change, self.press))()
            await asyncio.sleep(self.chance.uniform(0, pause_seconds))
        self.workspace.faults.clear()
        await asyncio.gather(*self.presses)

    async def fail(self):
        faults, method, times = self.workspace.faults, self.chance.choice(METHODS), self.chance.randint(1, 3)
        kinds = (
            lambda: faults.rate_limited(method, retry_after=1, times=times),
            lambda: faults.server_error(method, status=self.chance.choice((500, 502, 503, 504)), times=times),
            lambda: faults.drop(method, times=times),
            lambda: faults.lose_reply(method, times=times),
            lambda: faults.slow(method, self.chance.uniform(0, 0.5), times=times),
            lambda: faults.refuse(method, "internal_error", times=times),
        )
        self.chance.choice(kinds)()
        if self.chance.random() < 0.1:
            await self.workspace.sockets.close(self.chance.choice([None, *self.workspace.sockets.numbers]))

    async def change(self):
        subject = self.subject(self.chance.randrange(self.count))
        presence = self.chance.choice((Presence.PRESENT, Presence.PRESENT, Presence.UNKNOWN, Presence.ABSENT))
        await self.bot.found(presence, subject, what=self.chance.choice(VERDICTS))
        await self.grow_old()

    async def press(self):
        cards = self.workspace.channel("gpu-oncall").cards
        if cards:
            card, who = self.chance.choice(cards), self.workspace.person(self.chance.choice(("alice", "bob", "carol")))
            version = self.chance.randrange(len(card.versions))
            if "'action_id': 'acknowledge'" in str(card.versions[version].blocks):
                press = who.press(card, "Acknowledge", version=version)
                self.presses.append(asyncio.ensure_future(press))


async def all_said(bot):
    rows = [*await bot.rows(), *await bot.rows(RowKind.THREAD), *await bot.rows(RowKind.NOTICE)]
    return not [row for row in rows if row.state in (RowState.WAITING, RowState.SENDING)]


async def every_card_is_there_once_and_right(bot, workspace, edit_every):
    home = workspace.channel("gpu-oncall")
    rows = [row for row in await bot.rows() if row.ts is not None]
    assert sorted(row.ts for row in rows) == sorted(
        card.ts for card in home.cards if not card.text.startswith("*Slack")
    )
    keys = [message.metadata["event_payload"]["delivery"] for message in home.messages.values() if message.metadata]
    assert len(keys) == len(set(keys)), "a message stands twice"
    queries = Queries(bot.store, bot.fleet, bot.advance, words("en"))
    clicked = {row.incident_id for row in await clicks(bot)}
    for row in rows:
        (card,) = [card for card in home.cards if card.ts == row.ts]
        incident = await bot.store.read(lambda connection, row=row: incidents.load(connection, row.incident_id))
        assert html.unescape(card.text.split("\n")[0]) == await queries.title(incident)
        assert not row.possibly_twice
        if row.incident_id not in clicked:  # an edit whose answer was lost is made again at once, and is the same one
            calls = [call for call in workspace.calls_of("chat.update") if call.arguments["ts"] == row.ts]
            times = [call.at for call in calls if call.outcome == "ok"]
            gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
            assert all(gap >= edit_every for gap in gaps), gaps


async def clicks(bot):
    query = sa.select(schema.click.c.incident_id)
    return await bot.store.read(lambda connection: connection.execute(query).all())


async def story(store, fleet, workspace, count, seconds, edit_every, paces, seed, pause_seconds):
    advance = Advance(store, fleet, AdvanceSettings(timedelta(0), edit_every, shadow=False))
    bot = SlackBot(store, fleet, advance, workspace)
    settings = replace(bot.outbox._settings, edit_every=edit_every)
    bot.outbox.delivery._settings, bot.outbox.delivery.paces = settings, Paces(paces)
    bot.start()
    await workspace.until_connected(sockets=2)
    chaos = Chaos(bot, workspace, count, seconds, seed)
    await chaos.open_all()
    try:
        await chaos.run(pause_seconds)
        await until(lambda: all_said(bot), 60 + 4 * edit_every.total_seconds() + 3 * count)
        await every_card_is_there_once_and_right(bot, workspace, edit_every)
    finally:
        await bot.stop()
    return chaos


def most_in_a_minute(calls):
    """The most calls within any 60 seconds."""
    times = [call.at for call in calls]
    return max((sum(at <= later < at + timedelta(minutes=1) for later in times) for at in times), default=0)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
async def test_seconds_of_random_faults_leave_every_card_once_and_right(store, fleet, seed):
    async with Workspace(rate_limits=False) as workspace:
        every = timedelta(seconds=0.5)
        await story(store, fleet, workspace, 20, 4.0, every, {}, seed, 0.05)
        assert len(workspace.calls_of("chat.postMessage")) > 20


@pytest.mark.slow
async def test_ten_minutes_of_random_faults_with_a_hundred_incidents_within_slacks_limits(store, fleet):
    async with Workspace(rate_limits=True) as workspace:
        await story(store, fleet, workspace, 100, 600.0, timedelta(seconds=10), PACES, 1, 2.0)
        assert len(workspace.channel("gpu-oncall").cards) >= 100
        assert most_in_a_minute(workspace.calls_of("chat.update")) <= 50
        assert most_in_a_minute(workspace.calls_of("chat.postMessage")) <= 60
