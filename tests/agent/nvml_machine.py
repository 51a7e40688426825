"""A fake driver for the real worker of the collector nvml, and which workers there are."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from agent.collectors.nvml import QUESTIONS_PER_WORKER, NvmlCollector
from agent.reading import GpuReading, Sweep
from tests.fake_nvml import FakeGpu, FakeNvml

LONG = timedelta(seconds=30)
SHORT = timedelta(seconds=1.5)  # a worker must be able to start within it on a busy machine
GRACE = timedelta(seconds=0.2)


class Machine:
    """A fake driver in the environment of the workers that this test starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch

    def with_driver(
        self, gpus: int | list[FakeGpu] = 1, *, missing: tuple[str, ...] = (), **driver: object
    ) -> FakeNvml:
        fake = FakeNvml(self._folder, gpus, missing=missing, **driver)
        for name, value in fake.env.items():
            self._monkeypatch.setenv(name, value)
        return fake


@asynccontextmanager
async def collecting(
    deadline: timedelta = LONG, *, grace: timedelta = GRACE, questions_per_worker: int = QUESTIONS_PER_WORKER
) -> AsyncIterator[NvmlCollector]:
    collector = NvmlCollector(deadline, grace=grace, questions_per_worker=questions_per_worker)
    try:
        yield collector
    finally:
        await collector.close()


async def well(collector: NvmlCollector) -> Sweep:
    """The next sweep without an error: a worker may leave slowly, and no other is started before it has left."""
    async with asyncio.timeout(20):
        while (sweep := await collector.sweep()).error is not None:
            pass
    return sweep


async def read_one(collector: NvmlCollector) -> GpuReading:
    sweep = await collector.sweep()
    assert sweep.error is None
    return sweep.gpus[0]


def workers() -> list[int]:
    """The worker processes that this process started and that still run."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            arguments = (folder / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == os.getpid() and b"nvml_worker" in arguments:
            found.append(int(folder.name))
    return found


async def until(condition: Callable[[], bool], limit_seconds: float = 20) -> None:
    async with asyncio.timeout(limit_seconds):
        while not condition():
            await asyncio.sleep(0.01)
