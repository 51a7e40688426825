"""What a remedy asks of the loops: a tick and a sample that begin now, and the witness that a restart leaves behind."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from agent.clock import Clock
from agent.observe import grid_of
from agent.remedies.proof import prove
from agent.runner_config import Canary, RunnerConfig
from agent.runner_reading import GpuLook
from agent.runners import proc
from agent.runners.sources import Unread
from agent.runners.witness import KernelLog
from agent.sample import Sampler, fresh_window
from agent.ticks import RunnerWatch, Ticks, watches_of
from agent.verdicts import Sample
from tests.agent.answering import Answering, Reply, answering
from tests.agent.build_samples import sample
from tests.agent.order_node import METRICS
from tests.agent.test_remedies_act import fake_process
from tests.nats_server import until
from wire.ticks import CanaryOutcome, RunnerState, Witness, WitnessKind

HOUR = timedelta(hours=1)


EVERY = timedelta(seconds=0.1)
EMPTY_OLLAMA = Reply({"models": []}, headers={"Date": "Mon, 30 Nov 2026 12:00:00 GMT"})
TOKEN = Reply({"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}})


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


async def test_a_runner_that_was_restarted_on_purpose_loads_until_it_answers_and_is_not_called_down(
    tmp_path: Path,
) -> None:
    async with answering() as server:
        watch, clock = watch_of(server, tmp_path), NodeClock()
        server.routes["/health"] = Reply("", 500)
        watch.comes_up(clock.at + 1800)
        for _ in range(20):
            clock.at += 30
            tick = await watch.tick(clock, no_gpus, ())
        assert (tick.state, tick.api_dead_seconds) == (RunnerState.LOADING, 0)
        server.routes["/health"] = Reply("")
        clock.at += 30
        assert (await watch.tick(clock, no_gpus, ())).state is RunnerState.READY
        server.routes["/health"] = Reply("", 500)
        for _ in range(20):
            clock.at += 30
            tick = await watch.tick(clock, no_gpus, ())
        assert tick.api_dead_seconds > 500, "what dies after it was up is dead"
        await watch.close()


async def test_a_runner_that_does_not_come_up_is_called_dead_after_all(tmp_path: Path) -> None:
    async with answering() as server:
        watch, clock = watch_of(server, tmp_path), NodeClock()
        server.routes["/health"] = Reply("", 500)
        watch.comes_up(clock.at + 1800)
        for _ in range(80):
            clock.at += 30
            tick = await watch.tick(clock, no_gpus, ())
        assert tick.api_dead_seconds > 500
        await watch.close()


class NodeClock(Clock):
    """A node's clock that a test moves."""

    at = 1000.0

    def boottime_seconds(self) -> float:
        return self.at


@contextlib.asynccontextmanager
async def looping(watch: RunnerWatch, folder: Path) -> AsyncIterator[None]:
    loops = asyncio.create_task(Ticks([watch], Clock(), EVERY, no_gpus, KernelLog(folder / "none")).run())
    try:
        yield
    finally:
        loops.cancel()
        await asyncio.wait({loops})


def config(server: Answering, **changes: Any) -> RunnerConfig:
    return RunnerConfig(**{"name": "chat", "preset": "vllm", "url": server.url, **changes})


async def test_a_runner_that_was_restarted_is_asked_until_it_answers_and_not_before_it_is_up(tmp_path: Path) -> None:
    async with answering() as server:
        server.routes |= {"/health": Reply("", 503), "/metrics": Reply(METRICS)}
        server.routes |= {"/v1/models": Reply({"data": [{"id": "m"}]}), "/v1/completions": Reply("", 500)}
        [watch] = watches_of([config(server)], EVERY, tmp_path)
        async with looping(watch, tmp_path):
            proof = asyncio.create_task(prove(watch))
            await until(lambda: len(server.paths()) > 8, "it is looked at")
            assert server.paths("POST") == []
            server.routes["/health"] = Reply("")
            await until(lambda: server.paths("POST"), "it is asked")
            assert not proof.done()
            server.routes["/v1/completions"] = TOKEN
            await asyncio.wait_for(proof, 20)
            await until(lambda: watch.latest.canary is CanaryOutcome.OK, "the tick says so")


async def test_an_ollama_that_holds_nothing_after_its_restart_loads_the_model_that_the_config_names(
    tmp_path: Path,
) -> None:
    async with answering() as server:
        server.routes |= {"/api/version": Reply({"version": "1"}), "/api/ps": EMPTY_OLLAMA}
        server.routes |= {"/api/generate": Reply({"response": "x", "eval_count": 1})}
        named = config(server, preset="ollama", canary=Canary(model="qwen3:8b"))
        [watch] = watches_of([named], EVERY, tmp_path)
        async with looping(watch, tmp_path):
            await asyncio.wait_for(prove(watch), 20)
        (asked,) = [asked for asked in server.asked if asked.method == "POST"]
        assert asked.body["model"] == "qwen3:8b"
        assert asked.body["options"] == {"num_predict": 1}, "its own context length, as the first real request would"


async def test_before_a_remedy_and_without_a_name_no_canary_ever_loads_a_model(tmp_path: Path) -> None:
    async with answering() as server:
        server.routes |= {"/api/version": Reply({"version": "1"}), "/api/ps": EMPTY_OLLAMA}
        for number, (model, may_load) in enumerate([("qwen3:8b", False), ("auto", True)]):
            named = config(server, preset="ollama", canary=Canary(model=model))
            [watch] = watches_of([named], EVERY, tmp_path / str(number))
            async with looping(watch, tmp_path):
                await watch.fresh_tick()
                assert isinstance(await watch.canaries.fresh(may_load), Unread)
        assert server.paths("POST") == []


async def test_a_runner_without_a_canary_is_proved_by_its_work_alone(tmp_path: Path) -> None:
    async with answering() as server:
        await prove(watch_of(server, tmp_path))
        assert server.asked == []
