"""A fleet of 50 nodes at work, and everything around it fails: nothing is lost, nothing is done twice.

`make chaos` makes each fault at CHAOS_MOMENTS random moments (default 30), each alone, in about 11 s each.
CHAOS_SECONDS ends it earlier, CHAOS_ONLY=PostgreSQL makes those that name it, CHAOS_SEED plays another order.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterable

import pytest

from tests.chaos.faults import FAULTS, STORMS, Fault, possible
from tests.chaos.outcome import NORMAL_SECONDS, Moment, harm, outcome, table
from tests.chaos.world import World
from tests.nats_server import until

MOMENTS = int(os.environ.get("CHAOS_MOMENTS", "30"))
MOST_SECONDS = float(os.environ.get("CHAOS_SECONDS", "7200"))
ONLY = os.environ.get("CHAOS_ONLY", "")
SEED = int(os.environ.get("CHAOS_SEED", "1"))
STORM = "all of them at once"
# The server for all tests says whether there is a PostgreSQL; chaos has one of its own, which may be killed.
pytestmark = [pytest.mark.timeout(MOST_SECONDS + 600), pytest.mark.usefixtures("postgres_server")]


@pytest.mark.timeout(400)
async def test_all_faults_at_once_lose_nothing_and_double_nothing(tmp_path, capsys):
    async with World(tmp_path, random.Random(SEED)) as world:
        assert (await outcome(world, "start")).is_good
        sending = asyncio.create_task(world.orders.send())
        for storm in STORMS:
            world.change()
            await asyncio.gather(*(one_after_the_other(world, faults) for faults in storm))
        await sending
        await world.orders.repeat()
        moment = await outcome(world, STORM)
        say(capsys, table([moment], [STORM], []))
        if not moment.is_good:
            print(world.logs())
        await harm_is_seen(world)
    assert moment.is_good, moment


async def harm_is_seen(world: World) -> None:
    """So that a row of zeros means something: one of each is made."""
    add = "INSERT INTO gpu_hour VALUES ('sim-02', 'GPU-more', 0, 2400, 0, 0, 0, 0, 0, 0, 0) RETURNING 1"
    world.pair.rows(add)
    wanted = world.spools()  # once: the agents go on, and a window that just closed is not stored yet
    await until(lambda: harm(world, wanted)[0] == 0, "all windows stored", NORMAL_SECONDS)
    before = harm(world, wanted)
    assert before[:2] == (0, 1)
    world.pair.rows("DELETE FROM node_window WHERE node = 'sim-01' AND seq = 1 RETURNING 1")
    messages = world.pair.channel.messages
    (key, message) = next((key, one) for key, one in messages.items() if one.metadata)
    messages[f"{key}1"] = message
    world.orders.note_done_again()
    assert harm(world, wanted) == (1, 2, before[2] + 1, before[3] + 1)


async def one_after_the_other(world: World, faults: Iterable[Fault]) -> None:
    for fault in faults:
        if fault in possible(world).values():
            await fault(world)


@pytest.mark.slow
async def test_each_fault_at_random_moments_loses_nothing_and_doubles_nothing(tmp_path, capsys):
    moments: list[Moment] = []
    began = time.monotonic()
    async with World(tmp_path, random.Random(SEED)) as world:
        assert (await outcome(world, "start")).is_good
        faults = [name for name in possible(world) if ONLY in name]
        rounds = [world.chance.sample(faults, len(faults)) for _ in range(MOMENTS)]
        for name in (name for names in rounds for name in names):
            if time.monotonic() - began > MOST_SECONDS:
                break
            try:
                moments.append(await at_a_random_moment(world, name))
            except BaseException:
                print(world.logs())
                raise
            say(capsys, f"{len(moments)} of {MOMENTS * len(faults)}: {moments[-1]}")
            if moments[-1].said_seconds is None:
                break  # what comes after it would say nothing
        say(capsys, table(moments, list(FAULTS), [name for name in FAULTS if name not in possible(world)]))
        say(
            capsys,
            f"orders: {world.orders.done()} done, {dict(world.orders.answers)}; {len(world.pair.keys())} messages",
        )
        bad = [one for one in moments if not one.is_good]
        if bad:
            print(world.logs())
    assert not bad, f"not within {NORMAL_SECONDS} s, or with harm: {bad}"


async def at_a_random_moment(world: World, name: str) -> Moment:
    world.change()
    sending = asyncio.create_task(world.orders.send())
    await asyncio.sleep(world.chance.uniform(0, 3))
    await FAULTS[name](world)
    await sending
    await world.orders.repeat()
    return await outcome(world, name)


def say(capsys, text: str) -> None:
    """At once, also where pytest keeps what tests print."""
    with capsys.disabled():
        print(f"\n{text}", flush=True)
