"""The faults: each is a coroutine that makes it and returns when it is over from outside; what follows is ours."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from demo.machine import Program
from tests.chaos import small_disk
from tests.chaos.proxy import Cut
from tests.chaos.world import World
from tests.nats_server import until

Fault = Callable[[World], Awaitable[None]]
SECONDS = 60.0
_SLACK_FAULT_SECONDS = (3.0, 8.0)
_JUMPS_SECONDS = (-26 * 3600.0, -3600.0, -90.0, 90.0, 3600.0, 26 * 3600.0)


async def broker_killed(world: World) -> None:
    await world.server.kill()
    await asyncio.sleep(world.chance.uniform(0, 1))
    await world.server.start()


async def working_bot_killed(world: World) -> None:
    """It is started again at once, as systemd does, and then it is the one that waits; or it works again."""
    await _killed(await _at_work(world), world)


async def waiting_bot_killed(world: World) -> None:
    at_work = await _at_work(world)
    await _killed(world.pair.second if at_work is world.pair.first else world.pair.first, world)


async def working_bot_stopped(world: World) -> None:
    """SIGSTOP, until another one has taken its lease; then it wakes, and believes that it works."""
    bot, fence = await _at_work(world), world.pair.fence()
    with world.pair.stopped(bot):
        await until(lambda: world.pair.fence() > fence, "another bot begins", SECONDS)


async def agent_killed(world: World) -> None:
    if world.chance.random() < 0.5:
        await _killed(world.chance.choice(list(world.agents.values())), world)
    else:
        await world.ordered.kill()
        await asyncio.sleep(world.chance.uniform(0, 0.5))
        await world.ordered.start()


async def database_killed(world: World) -> None:
    await asyncio.to_thread(world.database.kill)
    await asyncio.sleep(world.chance.uniform(0, 3))
    await asyncio.to_thread(world.database.start)


async def network_cut(world: World) -> None:
    async with world.network.cut(world.chance.choice(list(Cut))):
        await asyncio.sleep(world.chance.uniform(1, 6))


async def spool_disk_full(world: World) -> None:
    assert world.disks.spool is not None
    await asyncio.to_thread(small_disk.fill, world.disks.spool)
    await asyncio.sleep(world.chance.uniform(2, 5))
    await asyncio.to_thread(small_disk.empty, world.disks.spool)


async def stream_disk_full(world: World) -> None:
    """A nats-server whose disk was full wants a new start: its operator's, since it is not ours."""
    assert world.disks.stream is not None
    await asyncio.to_thread(small_disk.fill, world.disks.stream)
    await asyncio.sleep(world.chance.uniform(2, 5))
    await asyncio.to_thread(small_disk.empty, world.disks.stream)
    await world.server.stop()
    await world.server.start()


async def database_disk_full(world: World) -> None:
    """PostgreSQL may give up; then its operator starts it again."""
    assert world.disks.database is not None
    await asyncio.to_thread(small_disk.fill, world.disks.database)
    await asyncio.sleep(world.chance.uniform(2, 5))
    await asyncio.to_thread(small_disk.empty, world.disks.database)
    if not world.database.lives:
        await asyncio.to_thread(world.database.start)


async def clocks_jump(world: World) -> None:
    """Of some nodes, by seconds or by a day, and back."""
    nodes = world.fleet.some(5)
    for node in nodes:
        world.fleet.set_clock(node, world.chance.choice(_JUMPS_SECONDS))
    await asyncio.sleep(world.chance.uniform(1, 4))
    for node in nodes:
        world.fleet.set_clock(node, 0.0)


async def slack_fails(world: World) -> None:
    faults, seconds = world.workspace.faults, world.chance.uniform(*_SLACK_FAULT_SECONDS)
    kinds = (
        lambda: faults.rate_limited("*", retry_after=2, times=None, for_seconds=seconds),
        lambda: faults.server_error("*", status=503, times=None, for_seconds=seconds),
        lambda: faults.lose_reply("*", times=None, for_seconds=seconds),
        lambda: faults.lose_reply("chat.postMessage", times=None, for_seconds=seconds),
        lambda: faults.drop("*", times=None, for_seconds=seconds),
    )
    world.chance.choice(kinds)()
    world.change()
    await asyncio.sleep(seconds)
    faults.clear()


FAULTS: Mapping[str, Fault] = {
    "kill -9 of the broker": broker_killed,
    "kill -9 of the bot that works": working_bot_killed,
    "kill -9 of the bot that waits": waiting_bot_killed,
    "SIGSTOP of the bot that works, SIGCONT after its lease was taken": working_bot_stopped,
    "kill -9 of an agent": agent_killed,
    "kill -9 of PostgreSQL": database_killed,
    "network cut between nodes and broker, 1 to 6 s": network_cut,
    "disk full under a spool, 2 to 5 s": spool_disk_full,
    "disk full under the stream, 2 to 5 s": stream_disk_full,
    "disk full under PostgreSQL, 2 to 5 s": database_disk_full,
    "clocks of five nodes jump, up to 26 h": clocks_jump,
    "Slack: 429, 503, lost replies, lost calls, 3 to 8 s": slack_fails,
}
_NEEDS_DISK: Mapping[Fault, str] = {
    spool_disk_full: "spool",
    stream_disk_full: "stream",
    database_disk_full: "database",
}


# Two storms: what stands in one line comes one after the other, and all lines at the same time.
STORMS = (
    (
        (broker_killed, stream_disk_full),
        (database_killed, database_disk_full),
        (network_cut, clocks_jump, slack_fails),
        (spool_disk_full,),
    ),
    ((agent_killed,), (waiting_bot_killed, working_bot_stopped, working_bot_killed)),
)


def possible(world: World) -> dict[str, Fault]:
    """Without those that want a disk of their own, where nobody may mount one."""
    return {
        name: fault
        for name, fault in FAULTS.items()
        if fault not in _NEEDS_DISK or getattr(world.disks, _NEEDS_DISK[fault]) is not None
    }


async def _killed(program: Program, world: World) -> None:
    await program.kill()
    await asyncio.sleep(world.chance.uniform(0, 0.5))
    await program.start()


async def _at_work(world: World) -> Program:
    """Once one of the two holds the lease: the database names one that is dead as long as nobody took it over."""

    def living() -> Program | None:
        pids = {bot.pid: bot for bot in (world.pair.first, world.pair.second) if bot.returncode is None}
        holders = [row.holder for row in world.pair.rows("SELECT holder FROM lease")]
        return next((bot for pid, bot in pids.items() if any(one.endswith(f"PID {pid}") for one in holders)), None)

    found: Program = await until(living, "a bot works", SECONDS)
    return found
