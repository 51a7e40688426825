"""Node windows per second into PostgreSQL, turn by turn with SQLite: the bot on one core, the server on the others."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figure import Figure
from bench.fleet_windows import GPUS, fleet_windows
from bench.ingest import Size, ingested
from bench.spent import one_core
from bot.listen import CHUNK
from tests.postgres import PostgresServer, programs

SIZE = Size(repeats=3)


def measure(size: Size = SIZE) -> list[Figure]:
    """Nothing where the wheel has no build for this platform."""
    if programs() is None:
        return []
    messages, pairs = fleet_windows(size.nodes, size.windows), []
    with _server() as server, tempfile.TemporaryDirectory() as folder, one_core():
        for number in range(size.repeats):
            server.execute(f"CREATE DATABASE bench_{number}")
            on_postgresql = asyncio.run(ingested(messages, server.url(f"bench_{number}")))
            pairs.append((on_postgresql, asyncio.run(ingested(messages, Path(folder, f"{number}.sqlite")))))
    count = len(messages)
    work = f"{count:,} windows of {size.nodes:,} nodes with {GPUS} GPUs, {CHUNK} in a transaction, synced"
    ratios = [on_postgresql.wall_seconds / on_sqlite.wall_seconds for on_postgresql, on_sqlite in pairs]
    rates = [count / on_postgresql.wall_seconds for on_postgresql, _ in pairs]
    return [
        Figure("ingest on PostgreSQL", rates, "windows/s", work),
        Figure("ingest on PostgreSQL, against SQLite", ratios, "times as long", "the same, turn by turn"),
    ]


@contextmanager
def _server() -> Iterator[PostgresServer]:
    """On a disk, and with its syncs, as for real."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-oncall-pg-"))
    server = PostgresServer(folder, syncs=True)
    server.make()
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
