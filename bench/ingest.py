"""Node windows per second into SQLite on one core, judged and stored; the bus is left out."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from bench.fleet_windows import GPUS, fleet_windows
from bench.floor import Floor
from bench.judging import judging
from bench.spent import Spent, measured, one_core
from bot.ingest import Arrived
from bot.listen import CHUNK
from tests.build import START
from wire import subjects

WINDOWS_PER_DAY = 24 * 60 // 5


@dataclass(frozen=True)
class Size:
    nodes: int = 1000
    windows: int = 10
    repeats: int = 5


def measure(size: Size = Size()) -> list[Figure]:
    messages = fleet_windows(size.nodes, size.windows)
    with one_core(), tempfile.TemporaryDirectory() as folder:
        pairs = [_pair(messages, Path(folder), number) for number in range(size.repeats)]
        sizes = [Path(folder, f"ours-{number}.sqlite").stat().st_size for number in range(size.repeats)]
    count = len(messages)
    work = f"{count:,} windows of {size.nodes:,} nodes with {GPUS} GPUs, {CHUNK} in a transaction, synced"
    rates, floor_rates = ([count / spent.cpu_seconds for spent in turns] for turns in zip(*pairs, strict=True))
    return [
        Figure("ingest", [count / ours.wall_seconds for ours, _ in pairs], "windows/s", work, "at least 2,000"),
        Figure("ingest, by CPU time", rates, "windows/s of CPU", work, "", "msgspec + sqlite3 alone", floor_rates),
        Figure(
            "ingest, against decode + INSERT alone",
            [ours.cpu_seconds / floor.cpu_seconds for ours, floor in pairs],
            "times the CPU",
            "the same bytes through msgspec and plain sqlite3, turn by turn",
        ),
        Figure(
            "database, per node and day",
            [one / count * WINDOWS_PER_DAY / 2**20 for one in sizes],
            "MiB",
            f"the file after these windows, for each of them, times the {WINDOWS_PER_DAY} of a day; a calm node less",
        ),
    ]


def _pair(messages: Sequence[Arrived], folder: Path, number: int) -> tuple[Spent, Spent]:
    ours = asyncio.run(ingested(messages, folder / f"ours-{number}.sqlite"))
    return ours, _floor(messages, folder / f"floor-{number}.sqlite")


async def ingested(messages: Sequence[Arrived], database: Path | str) -> Spent:
    """Of a new database, see `judging`."""
    async with judging(database) as parts:
        with measured() as spent:
            for begin in range(0, len(messages), CHUNK):
                taken = await parts.ingest.take(subjects.STREAM, START, messages[begin : begin + CHUNK])
                assert taken.stored == len(messages[begin : begin + CHUNK])
    return spent


def _floor(messages: Sequence[Arrived], file: Path) -> Spent:
    floor = Floor(file)
    with measured() as spent:
        for begin in range(0, len(messages), CHUNK):
            floor.take(message.body for message in messages[begin : begin + CHUNK])
    floor.close()
    return spent
