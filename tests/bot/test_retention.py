"""The store is bounded: what is older than the retention goes, with all that belongs to it, and nothing else."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from bot import clock
from bot.advance import Click
from bot.config import Retention
from bot.ingest import Arrived
from bot.judge.verdict import Presence
from bot.store import audit, incidents, schema
from bot.store.audit import Entry
from bot.store.schema import METADATA
from bot.sweep import AT_ONCE, Sweep
from tests.bot.build_incidents import finding
from tests.bot.outward import C
from tests.build import FIRST_WINDOW, START, observation
from wire.messages import encode

LONG_AGO = timedelta(days=500)
NO_TIMES = frozenset({"lease", "node_track", "stream_position", "remedy_switch", "node_snooze", "trouble"})


async def counts(store):
    def work(connection):
        return {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in METADATA.sorted_tables
        }

    return await store.read(work)


@pytest.fixture
async def filled(store, fleet, advance, ingest):
    """Windows, a gap, something that cannot be used, a group's card with members, clicks; all closed but one."""
    bodies = [b"nonsense", *(encode(observation(FIRST_WINDOW + n, (C,), seq=n + 5)) for n in range(3))]
    chunk = [Arrived("gpuoncall.obs.gpu-01", number + 1, body) for number, body in enumerate(bodies)]
    await ingest.take("OBS", START, chunk)
    subjects = [f"gpu-{number:02}/chat" for number in range(30)]
    for presence in (Presence.PRESENT, Presence.ABSENT):
        for subject in subjects:
            await advance.found(finding(presence=presence, subject=subject))
    await advance.look_around()
    await advance.found(finding(subject="gpu-50/chat"))
    await advance.acknowledge(Click("T0", "U0ALICE", "ack", "unknown"))
    for shown in await store.read(lambda connection: incidents.recent(connection, 3)):
        await store.write(lambda transaction, shown=shown: incidents.button_token(transaction.connection, shown, START))
    await store.write(lambda transaction: audit.append(transaction.connection, Entry(START, "", "made")))
    return store


async def grow_old(store, by):
    """Every instant of every row is that much earlier."""

    def work(transaction):
        for table in METADATA.sorted_tables:
            for column in table.columns:
                if isinstance(column.type, schema.Instant) and not column.primary_key:
                    earlier = sa.type_coerce(column, sa.BigInteger) - round(by.total_seconds() * 1_000_000)
                    change = {column.name: sa.type_coerce(earlier, schema.Instant)}
                    transaction.connection.execute(sa.update(table).values(**change))

    await store.write(work)


async def test_everything_that_is_over_goes_and_what_is_open_and_the_audit_stay(filled, advance):
    before = await counts(filled)
    assert before["incident"] > 31  # with the group's card
    sweep = Sweep(filled, advance, Retention())
    await sweep.forget_old()
    assert (await counts(filled))["incident"] == before["incident"]
    await grow_old(filled, LONG_AGO)
    await sweep.forget_old()
    after = {name: count for name, count in (await counts(filled)).items() if name not in NO_TIMES and count}
    assert after == {"incident": 1, "outbox": 1, "audit": 1, "button": after.get("button", 0)}
    (left,) = await filled.read(incidents.all_open)
    assert left.subject == "gpu-50/chat"


async def test_windows_go_in_parts_so_that_clicks_go_in_between(store, advance):
    at = clock.now() - LONG_AGO
    row = {"node": "gpu-01", "spool_epoch": "e", "boot_id": "b", "window_number": 1, "body": b""}
    rows = [{**row, "seq": number, "closed_at": at, "received_at": at} for number in range(AT_ONCE * 2 + 10)]
    await store.write(lambda transaction: transaction.connection.execute(sa.insert(schema.node_window), rows))
    await Sweep(store, advance, Retention()).forget_old()
    assert (await counts(store))["node_window"] == 0
