"""`gpu-oncall check` on a host with one of two bots."""

import pytest

from bot import enrol
from bot.broker.nodes import read_joins
from bot.check.pair import about_pair
from bot.config import BotConfig, Bus
from bot.lease import Leases
from bot.lock import only_bot
from bot.standby import this_bot
from bot.store.engine import make_engine
from wire.configfile import ConfigError


@pytest.fixture
def config(tmp_path, postgres_url):
    bus = Bus(servers=["nats://127.0.0.1:4222"], insecure=True)
    return BotConfig(data_dir=tmp_path, database=postgres_url, bus=bus)


async def held_by(config, holder):
    engine = make_engine(config.database)
    await Leases(engine, holder).try_to_take()
    engine.dispose()


def told(config):
    return [(str(finding.level), finding.text) for finding in about_pair(config)]


def test_one_bot_on_sqlite_is_asked_nothing(tmp_path):
    assert about_pair(BotConfig(data_dir=tmp_path)) == []


def test_a_bus_of_its_own_leaves_no_room_for_a_second_bot(tmp_path, postgres_url):
    (finding,) = about_pair(BotConfig(data_dir=tmp_path, database=postgres_url))
    assert (str(finding.level), finding.text) == ("advice", "no second bot can wait: this one's bus is its own")
    assert finding.todo == "to have two, name bot.bus.servers in both: docs/operations.md"


async def test_it_says_which_of_the_two_works(config):
    assert told(config) == [("advice", "no bot waits on this host")]
    await held_by(config, "bot-b, PID 7")
    assert told(config) == [("advice", "no bot waits on this host; the one on bot-b, PID 7 works")]
    with only_bot(config.data_dir):
        assert told(config) == [("ok", "the bot of this host waits; the one on bot-b, PID 7 works")]


async def test_it_knows_its_own_bot(config):
    await held_by(config, this_bot())
    with only_bot(config.data_dir):
        assert told(config) == [("ok", "the bot of this host works")]


async def test_a_node_is_let_in_on_the_host_whose_bot_works(config, tmp_path):
    await held_by(config, "bot-b, PID 7")
    with pytest.raises(ConfigError, match=r"the bot on bot-b, PID 7 works, .* run this on its host"):
        enrol.add(config, "gpu-09")
    assert read_joins(tmp_path, "gpu-09") == []
