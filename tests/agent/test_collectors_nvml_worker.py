"""The worker process of the collector nvml: one that hangs, was killed, answers late or prints."""

import asyncio
import os
import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.agent.nvml_machine import SHORT, Machine, collecting, until, well, workers


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo_v2"])
async def test_a_call_that_never_returns_is_an_error_within_the_deadline_and_heals(machine: Machine, call: str) -> None:
    fake = machine.with_driver(1, hang=(call,))
    async with collecting(SHORT) as collector:
        async with asyncio.timeout(20):  # the call itself never returns
            error = (await collector.sweep()).error
        assert error == "NVML did not answer within 1.5 s"
        fake.set_driver(hang=())
        await well(collector)
        assert len(workers()) == 1


async def test_a_worker_that_does_not_die_is_reported_and_never_doubled(machine: Machine) -> None:
    """A process in D state ignores SIGKILL; here SIGTERM has no effect and SIGKILL is a long way off."""
    fake = machine.with_driver(1)
    async with collecting(SHORT, grace=timedelta(seconds=60)) as collector:
        await collector.sweep()
        stuck = workers()
        fake.set_driver(hang=("nvmlDeviceGetUUID",))
        assert "did not answer" in ((await collector.sweep()).error or "")
        for _ in range(3):
            assert "nothing new is started" in ((await collector.sweep()).error or "")
            assert workers() == stuck
        fake.set_driver(hang=())
        await until(lambda: workers() == [])
        await well(collector)
        assert workers() != stuck


async def test_a_worker_that_was_killed_is_an_error_once(machine: Machine) -> None:
    machine.with_driver(1)
    async with collecting() as collector:
        await collector.sweep()
        os.kill(workers()[0], signal.SIGKILL)
        assert (await collector.sweep()).error is not None
        assert (await collector.sweep()).error is None


async def test_an_answer_to_an_earlier_question_is_never_used(machine: Machine) -> None:
    """The sampling loop may give up before the collector does; what then still comes is stale."""
    fake = machine.with_driver(1)
    async with collecting() as collector:
        await collector.sweep()
        fake.set_driver(hang=("nvmlDeviceGetUUID",))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(collector.sweep(), 0.3)
        fake.set_driver(hang=())
        fake.set(0, used=4096)
        assert "answered question 2, asked was 3" in ((await collector.sweep()).error or "")
        assert (await well(collector)).gpus[0].memory_used_bytes == 4096


async def test_a_worker_leaves_after_its_share_of_questions(machine: Machine) -> None:
    machine.with_driver(1)
    async with collecting(questions_per_worker=2) as collector:
        seen = set()
        for _ in range(4):
            await well(collector)
            seen |= set(workers())
        assert len(seen) == 2


async def test_what_a_library_prints_does_not_reach_the_answers(machine: Machine, tmp_path: Path) -> None:
    """The fake prints where its control file says so, as some vGPU shims do."""
    machine.with_driver(1, prints="can't find function nvmlDeviceGetSomething")
    async with collecting() as collector:
        assert (await collector.sweep()).error is None


async def test_a_library_that_shows_a_share_of_a_gpu_is_an_error_of_every_sweep(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not be there when the agent starts: the worker is the process that asks it."""
    fake = machine.with_driver(1)
    shim = tmp_path / "libvgpu"
    shutil.copytree(fake.library.parent, shim)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(shim))
    async with collecting() as collector:
        for _ in range(2):
            sweep = await collector.sweep()
            assert "libvgpu is loaded" in (sweep.error or "")
            assert sweep.gpus == ()
