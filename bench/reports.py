"""A report over 90 days of 1,000 GPUs, from hours in a real database to one page of HTML."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.figure import Figure
from bench.scale.processes import peak_mib
from bot.render.report_html import page
from bot.render.words import words
from bot.reporting import ReportSettings, gather
from bot.store.migrate import migrate
from bot.store.schema import gpu_hour, microseconds
from bot.store.upsert import insert_plain
from bot.store.writer import Store

GPUS_PER_NODE = 8
UNTIL = datetime(2026, 11, 30, tzinfo=UTC)
CHUNK_HOURS = 24


@dataclass(frozen=True)
class Size:
    nodes: int = 125
    days: int = 90
    repeats: int = 3


def fill(store: Store, nodes: int, days: int) -> None:
    """Hours as a bot would have written them, oldest first."""
    begin = UNTIL - timedelta(days=days)
    for day in range(days):
        rows = [row for hour in range(CHUNK_HOURS) for row in _hour(begin + timedelta(days=day, hours=hour), nodes)]
        with store.engine.begin() as connection:
            insert_plain(connection, gpu_hour, rows)


def _hour(at: datetime, nodes: int) -> Iterator[dict[str, object]]:
    for node in range(nodes):
        for gpu in range(GPUS_PER_NODE):
            idle = 3600.0 if (at.hour + node) % 24 < 6 or gpu == 7 else 0.0
            yield {
                "node": f"gpu-{node:03}",
                "gpu_uuid": f"GPU-{node:04x}{gpu:04x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
                "hour": microseconds(at),
                "candidate_seconds": idle,
                "held_seconds": 3600.0 - idle,
                "unknown_seconds": 0.0,
                "held_idle_seconds": 0.0,
                "idle_joules": idle * 60.0,
                "idle_read_seconds": idle,
                "held_idle_joules": 0.0,
                "held_idle_read_seconds": 0.0,
            }


def report_once(database: str, days: int) -> int:
    """The page's length in bytes."""
    store = Store(database)
    try:
        with store.engine.connect() as connection:
            report = gather(connection, UNTIL - timedelta(days=days), UNTIL, ReportSettings())
        return len(page(words("en"), report, UNTIL).encode())
    finally:
        store.close()


def measured(database: str, days: int) -> tuple[float, float]:
    """(seconds, MiB at most) of a process of its own that makes the report."""
    code = "import sys; from bench.reports import child; child(sys.argv[1], int(sys.argv[2]))"
    command = [sys.executable, "-c", code, database, str(days)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    seconds, mebibytes = done.stdout.split()
    return float(seconds), float(mebibytes)


def child(database: str, days: int) -> None:
    began = time.perf_counter()
    report_once(database, days)
    print(time.perf_counter() - began, peak_mib(os.getpid()))


def measure(size: Size = Size()) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/bot.sqlite"
        store = Store(database)
        migrate(store.engine)
        fill(store, size.nodes, size.days)
        store.close()
        seconds, mebibytes = zip(*(measured(database, size.days) for _ in range(size.repeats)), strict=True)
    work = f"hourly rows of {size.days} days of {size.nodes * GPUS_PER_NODE:,} GPUs, to HTML"
    return [
        Figure("report: time", seconds, "s", work, "< 10"),
        Figure("report: memory of its process", mebibytes, "MiB", work, "< 500"),
    ]
