"""What a remedy asks of the loops: a tick and a sample that begin now, and the witness that a restart leaves behind."""

import asyncio
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path

from agent.clock import Clock
from agent.observe import grid_of
from agent.runner_config import RunnerConfig
from agent.runner_reading import GpuLook
from agent.runners import proc
from agent.runners.witness import KernelLog
from agent.sample import Sampler, fresh_window
from agent.ticks import RunnerWatch, Ticks, watches_of
from agent.verdicts import Sample
from tests.agent.answering import Answering, Reply, answering
from tests.agent.build_samples import sample
from tests.agent.order_node import METRICS
from tests.agent.test_remedies_act import fake_process
from wire.ticks import Witness, WitnessKind

HOUR = timedelta(hours=1)


def no_gpus(_: RunnerConfig, __: float) -> GpuLook:
    return GpuLook()


def watch_of(server: Answering, folder: Path) -> RunnerWatch:
    server.routes |= {"/health": Reply(""), "/metrics": Reply(METRICS)}
    [watch] = watches_of([RunnerConfig(name="chat", preset="vllm", url=server.url, canary=False)], HOUR, folder)
    return watch


async def test_a_tick_that_is_asked_for_comes_at_once_and_began_after_that(tmp_path: Path) -> None:
    async with answering() as server:
        watch, clock = watch_of(server, tmp_path), Clock()
        loops = asyncio.create_task(Ticks([watch], clock, HOUR, no_gpus, KernelLog(tmp_path / "none")).run())
        try:
            for _ in range(3):
                asked_seconds, seen = clock.boottime_seconds(), len(server.asked)
                async with asyncio.timeout(20):
                    tick = await watch.fresh_tick()
                assert tick.at_seconds >= round(asked_seconds, 1) - 0.1
                assert len(server.asked) >= seen + 2, "it was read for this"
        finally:
            loops.cancel()
            await asyncio.wait({loops})


async def test_a_sample_that_is_asked_for_began_after_that() -> None:
    clock, taken = Clock(), list[float]()

    async def take() -> Sample:
        taken.append(clock.boottime_seconds())
        return sample()

    grid = grid_of("gpu-01", timedelta(seconds=1), timedelta(milliseconds=50))
    sampler = Sampler(grid, clock, take, timedelta(seconds=5), fresh_window(grid, clock))
    running = asyncio.create_task(sampler.run())
    try:
        for _ in range(3):
            asked_seconds = clock.boottime_seconds()
            async with asyncio.timeout(20):
                latest = await sampler.fresh()
            assert latest.began_seconds >= asked_seconds
            assert taken[-1] >= asked_seconds
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_a_process_that_outlives_the_sigkill_of_a_restart_is_a_witness_until_it_is_gone(tmp_path: Path) -> None:
    (folder := tmp_path / "proc").mkdir()
    fake_process(folder)
    async with answering() as server:
        watch, clock = watch_of(server, tmp_path), Clock()
        watch.killed(4321, partial(proc.survived_kill, 4321, "77", folder))
        for _ in range(2):
            tick = await watch.tick(clock, no_gpus, ())
            assert tick.witnesses == [Witness(WitnessKind.SURVIVED_KILL, 0.0, "process 4321 lives on after SIGKILL")]
        shutil.rmtree(folder / "4321")
        assert (await watch.tick(clock, no_gpus, ())).witnesses == []
        await watch.close()
