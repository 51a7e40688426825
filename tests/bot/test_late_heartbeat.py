"""A heartbeat that a network or a pause held back says how the node was then, and not how it is now."""

import asyncio
import contextlib

from agent.clock import Clock
from bot.judge.verdict import Because, Presence
from bot.listen import Listener
from tests.bot.outward import LAST
from tests.build import FIRST_WINDOW, OTHER_BOOT, gpu_uuid, heartbeat, observation
from tests.nats_server import NatsServer, connected, until
from wire import subjects
from wire.messages import Allocation, AllocationState, GpuNow, Verdict, encode

NODE = "gpu-01"
HELD_BACK_SECONDS = 2.0


def beat(uptime_seconds, **changes):
    return heartbeat(LAST, node=NODE, uptime_seconds=uptime_seconds, **changes)


@contextlib.asynccontextmanager
async def listening(*parts):
    task = asyncio.create_task(Listener(*parts, 16 * 1024 * 1024).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_the_bus_held_back_is_as_old_as_it_is(tmp_path, store, fleet, advance, ingest):
    seconds = Clock().boottime_seconds
    async with (
        NatsServer(tmp_path / "nats", [NODE]) as server,
        server.bot() as bot_link,
        listening(bot_link, store, ingest, fleet, advance),
        connected(server.node_link(NODE)) as link,
    ):

        async def heard():
            await link.publish_core(subjects.heartbeat(NODE), encode(beat(seconds(), last_seq=1)))
            return fleet.seen(NODE)

        await until(heard, "a heartbeat")
        server.freeze()
        said_at = seconds()
        await link.publish_core(subjects.heartbeat(NODE), encode(beat(said_at, last_seq=2)))
        await until(lambda: seconds() > said_at + HELD_BACK_SECONDS, "time passes")
        server.thaw()
        await until(lambda: fleet.seen(NODE).heartbeat.last_seq == 2, "the heartbeat that was held back")
        assert fleet.seen(NODE).age_seconds >= HELD_BACK_SECONDS - 0.5


def free_now(fleet):
    facts = fleet.judged(NODE).gpus[gpu_uuid(0)]
    return facts.standing.presence is Presence.PRESENT, facts.standing.because


async def test_one_that_comes_after_a_later_one_takes_nothing_back(fleet, outbox_bot):
    await outbox_bot.report(*(observation(FIRST_WINDOW + i, node=NODE) for i in range(3)))
    fleet.heard(beat(1000.0))
    assert free_now(fleet) == (True, Because.CONFIRMED)
    given = GpuNow(0, gpu_uuid(0), Verdict.CANDIDATE, [], 1.0, [], Allocation(AllocationState.ALLOCATED, "pod ml/a"))
    fleet.heard(beat(1030.0, gpus=[given]))
    assert free_now(fleet) == (False, Because.ALLOCATED)
    fleet.heard(beat(1010.0))
    assert free_now(fleet) == (False, Because.ALLOCATED)
    fleet.heard(beat(1060.0))
    assert free_now(fleet) == (True, Because.CONFIRMED)


async def test_one_from_before_a_reboot_that_comes_after_it_frees_nothing(fleet, outbox_bot):
    await outbox_bot.report(*(observation(FIRST_WINDOW + i, node=NODE) for i in range(3)))
    fleet.heard(beat(1000.0))
    assert free_now(fleet) == (True, Because.CONFIRMED)
    fleet.heard(beat(20.0, boot_id=OTHER_BOOT))
    assert free_now(fleet) == (False, Because.NEW_BOOT)
    fleet.heard(beat(990.0))
    assert free_now(fleet) == (False, Because.NEW_BOOT)
