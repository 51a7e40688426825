"""What one tick of four runners costs their node: read, folded, kept on disk."""

import asyncio
import http.client
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from agent.clock import Clock
from agent.runner_config import RunnerConfig
from agent.runner_reading import GpuLook
from agent.ticks import watches_of
from bench.figure import Figure
from bench.spent import counted_calls, one_core
from wire.ticks import Tick

RUNNERS = 4
_PAGES = ("/health", "/metrics")


@dataclass(frozen=True)
class Size:
    """`lines` of a page that are no business of ours, beside the twelve that are."""

    ticks: int = 50
    lines: int = 1000


@dataclass(frozen=True)
class _Costs:
    """Per tick of all runners; `floor_seconds` is that of the same pages, fetched and dropped."""

    cpu_seconds: list[float]
    floor_seconds: list[float]
    calls: list[int]


class _NodeClock(Clock):
    """Thirty seconds pass at once."""

    def __init__(self) -> None:
        self.at = 1000.0

    def boottime_seconds(self) -> float:
        return self.at


def measure(size: Size = Size()) -> list[Figure]:
    with one_core(), tempfile.TemporaryDirectory() as folder:
        costs = asyncio.run(_measured(Path(folder), size))
    work = f"{RUNNERS} runners (vLLM, {size.lines} other lines on the page): 8 requests, the clocks, 4 files"
    ratios = [ours / floor for ours, floor in zip(costs.cpu_seconds, costs.floor_seconds, strict=True)]
    return [
        Figure("tick of 4 runners, CPU", [1000 * one for one in costs.cpu_seconds], "ms of CPU", work, "under 20"),
        Figure(
            "tick of 4 runners, against http.client alone", ratios, "times the CPU", "the same 8 requests, turn by turn"
        ),
        Figure(
            "tick of 4 runners, calls", costs.calls, "calls of functions", "the same, counted: no machine is faster"
        ),
    ]


async def _measured(folder: Path, size: Size) -> _Costs:
    costs = _Costs([], [], [])
    async with page_server(size.lines) as url:
        node = Node(url, folder)
        await node.tick()  # what is made once is not counted
        for _ in range(size.ticks):
            began = time.process_time()
            await node.tick()
            costs.cpu_seconds.append(time.process_time() - began)
            began = time.process_time()
            _fetch(url)
            costs.floor_seconds.append(time.process_time() - began)
            costs.calls.append(await node.calls_of_a_tick())
    return costs


@asynccontextmanager
async def page_server(lines: int) -> AsyncIterator[str]:
    """In a process of its own, so that its work is not ours. Yields its URL."""
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.agent.big_page", str(lines), stdin=pipe, stdout=pipe
    )
    assert server.stdin is not None
    assert server.stdout is not None
    yield (await server.stdout.readline()).decode().strip()
    server.stdin.close()
    await server.wait()


class Node:
    """Four runners at one server, whose ticks are taken one by one."""

    def __init__(self, url: str, folder: Path) -> None:
        configs = [RunnerConfig(name=f"r{number}", preset="vllm", url=url, canary=False) for number in range(RUNNERS)]
        self._watches, self._clock = watches_of(configs, timedelta(seconds=30), folder), _NodeClock()

    async def tick(self) -> list[Tick]:
        self._clock.at += 30
        return [await watch.tick(self._clock, lambda _, __: GpuLook(), ()) for watch in self._watches]

    async def calls_of_a_tick(self) -> int:
        with counted_calls() as counted:
            await self.tick()
        return counted.calls


def _fetch(url: str) -> None:
    for _ in range(RUNNERS):
        for path in _PAGES:
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
            connection.request("GET", path)
            connection.getresponse().read()
            connection.close()
