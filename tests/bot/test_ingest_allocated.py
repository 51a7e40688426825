"""A card and a scheduler: what is given away leaves it, what cannot be asked stays off it."""

from msgspec.structs import replace

from bot.incident import CardState
from bot.judge.verdict import Because
from bot.store import incidents
from tests.bot.test_ingest import arrived, idle
from tests.build import FIRST_WINDOW, START, heartbeat
from wire.messages import Allocation, AllocationState, Heartbeat

LAST = FIRST_WINDOW + 2
FREE = Allocation(AllocationState.FREE)
GIVEN = Allocation(AllocationState.ALLOCATED, "pod ml/train-0")
BLIND = Allocation(AllocationState.UNREADABLE, "kubelet does not answer")


def beat(allocation: Allocation | None) -> Heartbeat:
    said = heartbeat(LAST)
    return replace(said, gpus=[replace(gpu, allocation=allocation) for gpu in said.gpus])


async def test_an_idle_gpu_that_is_given_away_opens_no_card_until_it_is_given_back(store, fleet, ingest, advance):
    await ingest.take("OBS", START, arrived(*idle(3)))
    for allocation in (GIVEN, BLIND, GIVEN):
        fleet.heard(beat(allocation))
        await advance.refresh("gpu-01")
        assert await store.read(incidents.all_open) == []
    fleet.heard(beat(FREE))
    await advance.refresh("gpu-01")
    assert len(await store.read(incidents.all_open)) == 1


async def test_a_gpu_that_is_given_away_leaves_its_card_as_a_held_one_does(store, fleet, ingest, advance):
    fleet.heard(beat(FREE))
    await ingest.take("OBS", START, arrived(*idle(3)))
    (opened,) = await store.read(incidents.all_open)
    fleet.heard(beat(GIVEN))
    await advance.refresh("gpu-01")
    assert await store.read(incidents.all_open) == []
    closed = await store.read(lambda connection: incidents.load(connection, opened.id))
    (gpu,) = closed.gpus
    assert (gpu.state, gpu.because, gpu.detail) == (CardState.LEFT, Because.ALLOCATED, "pod ml/train-0")


async def test_a_card_says_that_it_is_not_judged_while_the_scheduler_cannot_be_asked(store, fleet, ingest, advance):
    fleet.heard(beat(FREE))
    await ingest.take("OBS", START, arrived(*idle(3)))
    fleet.heard(beat(BLIND))
    await advance.refresh("gpu-01")
    (incident,) = await store.read(incidents.all_open)
    assert [(gpu.state, gpu.because) for gpu in incident.gpus] == [
        (CardState.NOT_JUDGED, Because.ALLOCATION_UNREADABLE)
    ]
