"""SQLite and PostgreSQL give the same words, and keep the same record, for the same stream."""

import random
import re

import pytest
import sqlalchemy as sa

from bot import clock
from bot.advance import Advance, Click
from bot.fleet import Fleet
from bot.judge.candidate import CandidateRule
from bot.store import incidents, schema, windows
from bot.store.migrate import migrate
from bot.store.outbox import RowState
from bot.store.writer import Store
from demo.workspace import Workspace
from tests.bot.outward import Bot, C, H, U
from tests.build import FIRST_WINDOW, heartbeat, observation
from tests.build_ticks import hung, tick

NODES = [f"gpu-{number:02}" for number in range(1, 8)]
ROUNDS = 14
# When the bot itself was at it, and how long it took: the same story is played twice, one after the other.
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC|\b\d+ (s|min)\b")
# What is judged from the stream alone: these rows have no time of the bot's own.
_OF_THE_STREAM = (schema.node_track, schema.gpu_run, schema.gpu_hour, schema.stream_position)


async def play(url, settings, seed):
    """One recorded story on one database: what people read of it, and what was kept."""
    chance = random.Random(seed)
    store = Store(url)
    migrate(store.engine)
    fleet = Fleet(CandidateRule())
    advance = Advance(store, fleet, settings)
    async with Workspace(rate_limits=False) as workspace:
        bot = Bot(store, fleet, advance, workspace)
        for round_number in range(ROUNDS):
            await one_round(bot, chance, round_number)
            await empty(bot)
        channels = ("gpu-candidates", "gpu-oncall")
        said = [_CLOCK.sub("TIME", workspace.transcript(channel)) for channel in channels]
    kept = await store.read(lambda connection: content(connection))
    store.close()
    return said, kept


async def one_round(bot, chance, number):
    """A window of every node, some late and some twice; a runner that hangs; what people press."""
    for node in chance.sample(NODES, len(NODES)):
        verdicts = [chance.choices((C, H, U), (8, 2, 1))[0] for _ in range(3)]
        window = FIRST_WINDOW + number
        hangs = node == NODES[0] and 3 <= number < 10
        read = [hung(number * 5.0 + i / 2, number * 5.0) if hangs else tick(number * 5.0 + i / 2) for i in range(3)]
        one = observation(window, verdicts, node=node, ticks=read)
        bot.fleet.heard(heartbeat(window, verdicts, node=node, runners=[read[-1]], sent_at=clock.now()))
        await bot.report(*[one] * chance.choice((1, 1, 2)))
        await bot.advance.refresh(node)
    await bot.advance.look_around()
    subject = f"{chance.choice(NODES)}/chat"
    await bot.found(subject=subject, what=chance.choice(("stalled", "down", "erroring")))
    for incident in bot.advance.open_incidents():
        if chance.random() < 0.2:
            token = await bot.store.write(
                lambda transaction, shown=incident: incidents.button_token(transaction.connection, shown, clock.now())
            )
            press = chance.choice((bot.advance.acknowledge, bot.advance.said_in_use, bot.advance.not_a_stall))
            await press(Click("T0", "U0ALICE", "press", token))


async def empty(bot):
    """Everything that is due is in Slack."""
    while await bot.outbox.turn() == 0.0:
        pass


def content(connection):
    rows = {table.name: sorted(map(repr, connection.execute(sa.select(table)).all())) for table in _OF_THE_STREAM}
    rows["newest"] = [windows.newest_windows(connection, node, 3) for node in NODES]
    rows["incidents"] = [(one.kind, one.subject, one.revision, one.what) for one in incidents.recent(connection, 500)]
    columns = (schema.outbox.c.kind, schema.outbox.c.line_key, schema.outbox.c.wanted_revision, schema.outbox.c.state)
    rows["outbox"] = connection.execute(sa.select(*columns).order_by(schema.outbox.c.id)).all()
    return rows


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
async def test_the_same_stream_gives_the_same_words_and_the_same_record(tmp_path, postgres_url, settings, seed):
    said, kept = await play(f"sqlite:///{tmp_path}/bot.db", settings, seed)
    said_there, kept_there = await play(postgres_url, settings, seed)
    assert "\n".join(said_there) == "\n".join(said)
    assert kept_there == kept
    states = {row.state for row in kept["outbox"]}
    assert len(said[0]) > 2000
    assert RowState.SENT in states
