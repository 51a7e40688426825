"""A bot whose lease is gone, and that does not know it yet: whatever still comes, it writes and says nothing."""

import pytest

from bot import clock
from bot.store import leases
from bot.store.engine import LostLeaseError, begin_for_writing, make_engine
from bot.store.tenure import Tenure
from bot.store.writer import Store
from tests.bot.outward import sent


def begun(url, holder):
    """Another bot's number."""
    engine = make_engine(url)
    with engine.connect() as connection:
        begin_for_writing(connection)
        with connection.begin():
            fence = leases.take(connection, holder, 9.0, over=leases.read(connection))
    engine.dispose()
    return fence


@pytest.fixture
def tenure():
    return Tenure(1, None)


@pytest.fixture
def store(database_url, store, tenure):
    """In place of the fixture of that name: a bot that began, and that works by its own clock."""
    assert begun(database_url, "first") == 1
    at_work = Store(database_url, tenure)
    yield at_work
    at_work.close()


async def test_by_the_database_nothing_is_written_and_so_nothing_is_posted(bot, workspace, database_url):
    await bot.found()
    await sent(bot)
    begun(database_url, "second")
    with pytest.raises(LostLeaseError):
        await bot.found(subject="gpu-08/chat")
    press = await workspace.person("alice").press(workspace.channel("gpu-oncall").cards[0], "Acknowledge")
    await workspace.until(lambda: press.ephemerals)
    assert "nothing was changed" in press.ephemerals[0].text
    assert await bot.clicks() == []
    assert len(workspace.channel("gpu-oncall").cards) == 1


async def test_by_its_own_clock_it_does_not_even_acknowledge(bot, workspace, tenure):
    await bot.found()
    await sent(bot)
    tenure.extend(clock.boot_seconds() - 1.0)
    press = await workspace.person("alice").press(workspace.channel("gpu-oncall").cards[0], "Acknowledge")
    assert not press.acked
    assert press.ephemerals == []
    assert await bot.clicks() == []
