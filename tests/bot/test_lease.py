"""One bot works at a time: whoever has the lease; a bot that lost it writes nothing and sends nothing."""

import asyncio
import contextlib
import threading
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from bot import clock
from bot.lease import LASTS_SECONDS, Leases
from bot.store import leases, troubles
from bot.store.engine import LostLeaseError, begin_for_writing, make_engine
from bot.store.leases import Lease
from bot.store.tenure import Tenure
from bot.store.writer import Store
from tests.nats_server import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@contextlib.contextmanager
def written(engine):
    with engine.connect() as connection:
        begin_for_writing(connection)
        with connection.begin():
            yield connection


@pytest.fixture
def engine(store):
    return store.engine


def take_over(engine, holder):
    """As whoever saw the lease unchanged for as long as it lasts."""
    with written(engine) as connection:
        return leases.take(connection, holder, 9.0, over=leases.read(connection))


@contextlib.contextmanager
def at_work(url, fence):
    store = Store(url, Tenure(fence, None))
    try:
        yield store
    finally:
        store.close()


async def note(store, name):
    await store.write(lambda transaction: troubles.end(transaction.connection, name))


def test_each_bot_that_begins_has_a_higher_number(engine):
    assert [take_over(engine, holder) for holder in ("a", "b", "c")] == [1, 2, 3]


async def test_a_bot_writes_only_while_no_later_one_has_begun(engine, database_url):
    with at_work(database_url, take_over(engine, "a")) as store:
        await note(store, "x")
        take_over(engine, "b")
        with pytest.raises(LostLeaseError, match="another bot works now: this one's number is 1, and 2 has begun"):
            await note(store, "x")


def test_a_lease_is_renewed_until_another_bot_has_begun(engine):
    first = take_over(engine, "a")
    with written(engine) as connection:
        assert leases.renew(connection, first, 9.0)
    take_over(engine, "b")
    with written(engine) as connection:
        assert not leases.renew(connection, first, 9.0)


def test_the_number_of_a_database_that_was_brought_back_is_never_lower(engine):
    with written(engine) as connection:
        assert leases.raise_fence(connection, 1_700_000_000) == 1_700_000_000
        assert leases.raise_fence(connection, 5) == 1_700_000_000
        assert leases.take(connection, "a", 9.0) == 1_700_000_001
        assert leases.fence_number(connection) == 1_700_000_001


# --- PostgreSQL alone: two bots share one row -----------------------------------------------------------------------


@pytest.fixture
def shared(postgres_url):
    engine = make_engine(postgres_url, ends_idle=True)
    yield engine
    engine.dispose()


def test_a_second_bot_gets_it_only_unchanged_or_given_back(shared):
    with written(shared) as connection:
        assert leases.take(connection, "a", 9.0) == 1
        assert leases.take(connection, "b", 9.0) is None
        seen = leases.read(connection)
        assert (seen.fence, seen.holder, seen.is_kept) == (1, "a", True)
        assert leases.renew(connection, 1, 9.0)
        assert leases.take(connection, "b", 9.0, over=seen) is None  # it was renewed since
        assert leases.take(connection, "b", 9.0, over=leases.read(connection)) == 2
        leases.release(connection, 2)
        assert leases.read(connection).holder == ""
        assert leases.take(connection, "b", 9.0) == 3
        assert leases.renew(connection, 1, 9.0) is False
        assert leases.renew(connection, 3, 9.0) is True


def test_nobody_takes_the_lease_while_a_transaction_of_its_holder_is_open_and_renewing_goes_on(shared):
    with written(shared) as connection:
        fence = leases.take(connection, "a", 9.0)
    taken = []

    def take():
        taken.append(take_over(shared, "b"))

    other = threading.Thread(target=take)
    with written(shared) as holder:
        leases.check(holder, fence)
        with written(shared) as connection:
            assert leases.renew(connection, fence, 9.0)
        other.start()
        other.join(0.3)
        assert taken == []
    other.join(30)
    assert taken == [fence + 1]


def test_a_bot_that_stops_in_the_middle_of_a_transaction_holds_the_lease_for_seconds_only(shared):
    """PostgreSQL ends its session; what it had begun is not there."""
    with written(shared) as connection:
        fence = leases.take(connection, "a", 0.0)
    stopped = shared.connect()
    begin_for_writing(stopped)
    stopped.begin()
    leases.check(stopped, fence)
    troubles.note(stopped, "half", "written", NOW)
    assert take_over(shared, "b") == fence + 1  # it waited until the session of the stopped one was ended
    with pytest.raises(sa.exc.DBAPIError):
        stopped.execute(sa.text("SELECT 1"))
    stopped.invalidate()
    stopped.close()
    with shared.connect() as connection:
        assert troubles.all_troubles(connection) == []


async def test_a_bot_that_stops_while_it_sends_many_statements_holds_the_lease_for_seconds_only(shared):
    """PostgreSQL does not call that idle: without a Sync it waits for the next of them for ever."""
    with written(shared) as connection:
        fence = leases.take(connection, "a", 9.0)
    stopped = shared.raw_connection()
    wire = stopped.driver_connection.pgconn
    wire.enter_pipeline_mode()
    for statement in (b"BEGIN", b"SELECT fence FROM lease WHERE name = 'bot' FOR KEY SHARE"):
        wire.send_query_params(statement, None)
    wire.send_flush_request()
    wire.flush()
    began = await asyncio.wait_for(Leases(shared, "b").taken(lambda lease: None), 60)
    assert began.fence == fence + 1
    stopped.invalidate()


async def test_the_one_that_waits_is_told_who_works_and_begins_when_it_ends(shared):
    first, second = Leases(shared, "a"), Leases(shared, "b")
    seen = []
    working = await first.taken(lambda lease: None)
    waiting = asyncio.create_task(second.taken(lambda lease: seen.append(lease.holder)))
    await until(lambda: seen, "it looks")
    assert not waiting.done()
    await first.give_back(working)
    began = await asyncio.wait_for(waiting, 30)
    assert (began.fence, began.is_held(), working.is_held(), set(seen)) == (2, True, False, {"a"})


async def test_a_bot_that_lost_the_lease_hears_of_it_and_knows_by_its_own_clock_when_it_cannot_ask(shared):
    bots = Leases(shared, "a")
    working = await bots.taken(lambda lease: None)
    take_over(shared, "b")
    assert await asyncio.wait_for(bots.keep(working), 30) == "another bot works now"
    assert not working.is_held()
    assert not Tenure(1, 0.0).is_held()


async def test_a_jump_of_the_databases_clock_neither_takes_the_lease_nor_keeps_it_for_ever(shared):
    """Whoever waits counts the time for itself."""
    bots, started_at = Leases(shared, "b"), clock.boot_seconds()
    with written(shared) as connection:
        leases.take(connection, "a", 9.0)
        leases.renew(connection, 1, -3600.0)
    assert isinstance(await bots.try_to_take(), Lease)
    with written(shared) as connection:
        leases.renew(connection, 1, 3600.0)
    began = await asyncio.wait_for(bots.taken(lambda lease: None), 60)
    assert began.fence == 2
    assert clock.boot_seconds() - started_at >= LASTS_SECONDS
