"""How long a bot that was away takes to store and judge what waits in the stream of a real nats-server."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.figure import Figure
from bench.fleet_windows import GPUS, fleet_windows
from bench.floor import Floor
from bench.judging import Judging, judging
from bench.spent import Spent, measured, one_core
from bot.broker.stream import ensure_stream, reset_consumer
from bot.ingest import Arrived
from bot.listen import Listener
from bot.store import windows
from bot.store.writer import Store
from tests.nats_server import NatsServer, connected, fast_link
from wire import subjects
from wire.acks import Failure
from wire.link import Link

_STREAM_BYTES = 64 * 1024 * 1024
_DEADLINE_SECONDS = 120.0
_ACK_DEADLINE = timedelta(seconds=30)
_AT_ONCE = 500
FLOOR = "nats-py + msgspec + sqlite3 alone"


@dataclass(frozen=True)
class Size:
    nodes: int = 1000
    windows: int = 10
    repeats: int = 3


def measure(size: Size = Size()) -> list[Figure]:
    return asyncio.run(_measure(size))


async def _measure(size: Size) -> list[Figure]:
    messages = fleet_windows(size.nodes, size.windows)
    with tempfile.TemporaryDirectory() as folder:
        async with _queued(Path(folder), messages) as server:
            pairs = [await _pair(server, Path(folder), len(messages), number) for number in range(size.repeats)]
    ours_cpu, floor_cpu = [ours.cpu_seconds for ours, _ in pairs], [floor.cpu_seconds for _, floor in pairs]
    work = f"{len(messages):,} windows of {size.nodes:,} nodes with {GPUS} GPUs, the server on another core if it can"
    return [
        Figure("drain of a full stream", [ours.wall_seconds for ours, _ in pairs], "s", work, "under 10"),
        Figure("drain, CPU time of the bot", ours_cpu, "s of CPU", work, "", FLOOR, floor_cpu),
        Figure(
            "drain, against fetch + decode + INSERT + ack alone",
            [ours / floor for ours, floor in zip(ours_cpu, floor_cpu, strict=True)],
            "times the CPU",
            "the same stream through nats-py, msgspec and plain sqlite3, turn by turn",
        ),
    ]


@contextlib.asynccontextmanager
async def _queued(folder: Path, messages: Sequence[Arrived]) -> AsyncIterator[NatsServer]:
    """The server as the bot configures it, with a stream that was filled before, in a hurry."""
    server = NatsServer(folder / "bus", ["gpu-0000"])
    file = server.folder / "server.conf"
    config = file.read_text()
    file.write_text(_hurried(config))
    await server.start()
    try:
        async with server.bot(_STREAM_BYTES) as link:
            await _fill(link, messages)
        await server.stop()
        file.write_text(config)
        await server.start()
        yield server
    finally:
        await server.stop()


def _hurried(config: str) -> str:
    """No disk sync for every message, and the bot may speak for all nodes: only while the stream is filled."""
    changes = {
        "sync_interval: always": 'sync_interval: "10s"',
        '"$JS.ACK.>"': f'"$JS.ACK.>", "{subjects.OBSERVATIONS}"',
    }
    for before, after in changes.items():
        assert before in config
        config = config.replace(before, after, 1)
    return config


async def _fill(link: Link, messages: Sequence[Arrived]) -> None:
    for begin in range(0, len(messages), _AT_ONCE):
        part = messages[begin : begin + _AT_ONCE]
        acks = await asyncio.gather(
            *(link.publish_acked(one.subject, one.body, str(one.stream_seq), _ACK_DEADLINE) for one in part)
        )
        refused = [ack for ack in acks if isinstance(ack, Failure)]
        assert not refused, refused[0]


async def _pair(server: NatsServer, folder: Path, count: int, number: int) -> tuple[Spent, Spent]:
    with one_core():
        async with _bot_link(server) as link, judging(folder / f"ours-{number}.sqlite") as parts:
            ours = await _drained(link, parts, count)
        async with _bot_link(server) as link:
            return ours, await _drained_by_libraries(link, folder / f"floor-{number}.sqlite", count)


def _bot_link(server: NatsServer) -> contextlib.AbstractAsyncContextManager[Link]:
    return connected(fast_link([server.url], server.bot_seed, subjects.inbox(subjects.BOT), "bench"))


async def _drained(link: Link, parts: Judging, count: int) -> Spent:
    listener = Listener(link, parts.store, parts.ingest, parts.fleet, parts.advance, _STREAM_BYTES)
    with measured() as spent:
        running = asyncio.create_task(listener.run())
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await _all_stored(parts.store, count)
    running.cancel()
    await asyncio.wait({running})
    return spent


async def _all_stored(store: Store, count: int) -> None:
    """Looks 20 times a second: a database tells nobody that it changed."""
    while True:
        position = await store.read(lambda connection: windows.position(connection, subjects.STREAM))
        if position and position[1] >= count:
            return
        await asyncio.sleep(0.05)


async def _drained_by_libraries(link: Link, file: Path, count: int) -> Spent:
    floor, left = Floor(file), count
    with measured() as spent:
        await ensure_stream(link.jetstream(), _STREAM_BYTES)
        await reset_consumer(link.jetstream(), 1)
        subscription = await link.jetstream().pull_subscribe_bind(
            subjects.CONSUMER, subjects.STREAM, inbox_prefix=f"{subjects.inbox(subjects.BOT)}.".encode()
        )
        while left:
            messages = await subscription.fetch(min(left, _AT_ONCE), timeout=_DEADLINE_SECONDS)
            floor.take(message.data for message in messages)
            for message in messages:
                await message.ack()
            left -= len(messages)
    floor.close()
    return spent
