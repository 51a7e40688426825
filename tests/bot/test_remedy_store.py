"""What rules ask of the database, and what it never takes: two unfinished requests for one node, two same orders."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError

from bot.incident import Incident, Kind
from bot.remedy.blockers import Switch
from bot.remedy.model import Answered, State
from bot.store import audit, incidents, remedies
from tests.bot.build_remedies import MINUTE, remedy
from tests.build import START
from wire.orders import Action

DAY = timedelta(hours=24)


def put(connection, request, closed_at=None):
    """A request as advance saves it."""
    incident = Incident(0, Kind.REMEDY, request.node, START, remedy=request, closed_at=request.ended_at or closed_at)
    saved = incidents.save(connection, None, incident)
    if saved.closed_at:  # the row is closed, so that the node may have another
        saved = incidents.save(connection, saved, replace(saved, revision=2))
    remedies.save(connection, saved)
    return saved


async def put_all(store, *requests):
    return await store.write(lambda transaction: [put(transaction.connection, one) for one in requests])


def sent(node, number, state, **changes):
    at = START + number * MINUTE
    over = {"ended_at": at} if state not in (State.SENDING, State.ACCEPTED) else {}
    return remedy(node=node, state=state, order_id=f"{node} {number}", sent_at=at, **over, **changes)


async def test_a_node_has_one_unfinished_request(store):
    (first,) = await put_all(store, remedy())
    with pytest.raises(IntegrityError):
        await put_all(store, remedy())
    assert (await store.read(lambda connection: remedies.unfinished_of(connection, "gpu-07"))).id == first.id
    await put_all(store, remedy(node="gpu-08"))
    assert [one.node for one in await store.read(remedies.unfinished)] == ["gpu-07", "gpu-08"]


async def test_an_order_belongs_to_one_request(store):
    await put_all(store, sent("gpu-07", 1, State.DONE))
    again = replace(sent("gpu-08", 1, State.DONE), order_id="gpu-07 1")
    with pytest.raises(IntegrityError):
        await put_all(store, again)


async def test_nodes_with_an_unfinished_request_are_known_without_ones_own(store):
    first, *_ = await put_all(store, remedy(), remedy(node="gpu-08"), sent("gpu-09", 1, State.DONE))

    def nodes(connection):
        return remedies.nodes_under_way(connection), remedies.nodes_under_way(connection, but=first.id)

    assert await store.read(nodes) == (["gpu-07", "gpu-08"], ["gpu-08"])


async def test_only_reboots_that_may_have_happened_within_a_day_are_counted(store):
    not_done = (State.REFUSED, State.VOID, State.EXPIRED, State.DENIED, State.STOPPED)
    await put_all(store, *(sent("gpu-07", 10 + number, state) for number, state in enumerate(not_done)))
    await put_all(store, sent("gpu-07", 1, State.DONE), sent("gpu-07", 2, State.FAILED))
    await put_all(store, sent("gpu-07", 3, State.OUTCOME_UNKNOWN), sent("gpu-07", -2 * 24 * 60, State.DONE))
    await put_all(store, sent("gpu-07", 4, State.DONE, action=Action.RESTART_RUNNER), sent("gpu-08", 5, State.DONE))

    def work(connection):
        acted = remedies.acted_since(connection, START - DAY)
        return remedies.count_reboots(connection, "gpu-07", START - DAY), [(one.node, one.state) for one in acted]

    count, acted = await store.read(work)
    assert count == 3
    assert acted == [
        ("gpu-07", State.DONE),
        ("gpu-07", State.FAILED),
        ("gpu-07", State.OUTCOME_UNKNOWN),
        ("gpu-07", State.DONE),
        ("gpu-08", State.DONE),
    ]


async def test_the_kill_switch_is_kept_until_somebody_resumes(store):
    assert await store.read(remedies.stopped) is None
    for reason in ("first", "again"):
        switch = Switch("host:root", START, reason)
        await store.write(lambda transaction, switch=switch: remedies.stop(transaction.connection, switch))
    assert await store.read(remedies.stopped) == Switch("host:root", START, "again")
    assert await store.write(lambda transaction: remedies.resume(transaction.connection))
    assert not await store.write(lambda transaction: remedies.resume(transaction.connection))


async def test_a_nodes_answer_with_a_character_that_no_database_takes_still_ends_its_request(store, advance):
    """Otherwise it would be tried for ever, and all other requests would wait behind it."""
    await advance.start()
    (request,) = await put_all(store, sent("gpu-07", 1, State.SENDING))
    after = await advance.remedies.move(request.id, Answered(False, "no\0thing was done"))
    assert after.remedy.state is State.REFUSED
    rows = await store.read(lambda connection: audit.of_remedy(connection, request.id))
    assert [(row.entry.what, row.entry.why) for row in rows] == [("refused", "no\ufffdthing was done")]
    assert (await store.read(audit.verify))[1] == []
