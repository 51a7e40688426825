"""The bot that waits: it says who works, ends at once when it is told to, and does not wait for what cannot be."""

import asyncio

import pytest

from bot.config import BotConfig, Bus
from bot.database import reached
from bot.lease import Leases
from bot.standby import Standby
from bot.store.engine import make_engine
from bot.terminal.client import ask_running
from bot.terminal.wire import Request, socket_path
from tests.nats_server import free_port, until
from wire.configfile import ConfigError

ELSEWHERE = Bus(servers=["nats://127.0.0.1:4222"], insecure=True)


@pytest.fixture
def engine(postgres_url):
    engine = make_engine(postgres_url, ends_idle=True)
    yield engine
    engine.dispose()


@pytest.fixture
async def working(engine):
    bots = Leases(engine, "host-a, PID 7")
    tenure = await bots.try_to_take()
    keeping = asyncio.create_task(bots.keep(tenure))
    yield bots, tenure
    keeping.cancel()


async def test_whoever_asks_the_bot_that_waits_hears_where_the_other_one_is(tmp_path, postgres_url, engine, working):
    config, stop = BotConfig(data_dir=tmp_path, database=postgres_url, bus=ELSEWHERE), asyncio.Event()
    waiting = asyncio.create_task(Standby(config, Leases(engine, "host-b, PID 9")).begun(stop))
    await until(socket_path(tmp_path).exists, "it can be asked")

    async def heard():
        reply = await ask_running(tmp_path, Request("status"))
        return reply.text == "this bot waits; the one on host-a, PID 7 works: ask there" and not reply.understood

    await until(heard, "it knows who works")
    stop.set()
    assert await asyncio.wait_for(waiting, 30) is None
    assert not socket_path(tmp_path).exists()


async def test_it_begins_when_the_other_one_gives_back(tmp_path, postgres_url, engine, working):
    config = BotConfig(data_dir=tmp_path, database=postgres_url, bus=ELSEWHERE)
    waiting = asyncio.create_task(Standby(config, Leases(engine, "host-b, PID 9")).begun(asyncio.Event()))
    await until(socket_path(tmp_path).exists, "it waits")
    bots, tenure = working
    await bots.give_back(tenure)
    assert (await asyncio.wait_for(waiting, 30)).fence == 2


async def test_two_bots_with_a_bus_each_are_refused_with_what_to_do(tmp_path, postgres_url, engine, working):
    config = BotConfig(data_dir=tmp_path, database=postgres_url)
    with pytest.raises(ConfigError, match=r"\(host-a, PID 7\), and this one has a bus of its own: .* bot.bus.servers"):
        await Standby(config, Leases(engine, "host-b, PID 9"), really_there_seconds=0.0).begun(asyncio.Event())


async def test_a_database_that_is_away_is_waited_for_until_somebody_stops_the_bot(tmp_path, caplog):
    config = BotConfig(data_dir=tmp_path, database=f"postgresql://bot@127.0.0.1:{free_port()}/oncall")
    stop = asyncio.Event()
    waiting = asyncio.create_task(reached(config, stop))
    await until(lambda: "The database cannot be reached, trying on; error=" in caplog.text, "it is said")
    stop.set()
    assert await asyncio.wait_for(waiting, 30) is False
