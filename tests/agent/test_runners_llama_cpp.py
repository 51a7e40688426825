"""A real runner that is not ours: llama.cpp's own server while it works, waits, is stopped and is killed."""

import asyncio
import os
import signal
import sys

import pytest

from agent.runner_config import Canary, RunnerConfig
from agent.runner_reading import GpuLook
from agent.runners import proc
from agent.runners.http import Server
from agent.runners.read import RunnerReader
from tests.nats_server import until
from wire.configfile import Duration
from wire.ticks import ApiState, ProcessState

# Its wheel needs the C compiler's OpenMP library, which a bare machine has not. In CI a missing one is a failure.
if os.environ.get("CI") != "true":
    pytest.importorskip("xllamacpp", reason="NO llama.cpp HERE: install libgomp1 (Debian)", exc_type=ImportError)
    pytest.importorskip("gguf")


@pytest.fixture
async def llama(tmp_path):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.agent.llama_server",
        tmp_path / "model.gguf",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(60):
        url = (await process.stdout.readline()).decode().strip()
    process.url = url
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_a_real_server_is_read_while_it_works_waits_is_stopped_and_is_killed(llama):
    canary = Canary(first_token_timeout=Duration(seconds=5))
    config = RunnerConfig(name="real", preset="llama.cpp", url=llama.url, canary=canary)
    reader = RunnerReader(config, answer_seconds=1.5)
    fresh = await reader.read(GpuLook())
    assert (fresh.api.state, fresh.own_demand) == (ApiState.OK, 0)
    assert fresh.counters == {"decodes": 0, "prompt_tokens": 0, "predicted_tokens": 0}
    assert fresh.exporter

    assert (await reader.canary()).outcome == "ok"
    asked = await reader.read(GpuLook())
    assert asked.counters["predicted_tokens"] == 1
    assert 0 < asked.counters["prompt_tokens"] <= 64, "a canary's prompt is as short as the preset says"
    assert asked.counters["decodes"] <= 8

    long_one = {"prompt": "a", "n_predict": 1500, "ignore_eos": True}
    client = Server(llama.url, None, None, 1 << 24)
    work = asyncio.create_task(client.post("/completion", long_one, 60))
    seen = []

    async def is_moving():
        seen.append(await reader.read(GpuLook()))
        busy = [reading for reading in seen if reading.own_demand]
        return len({reading.gauges.get("decoded") for reading in busy}) >= 2

    await until(is_moving, "tokens move while it works")
    llama.send_signal(signal.SIGSTOP)
    await until(lambda: proc.process(llama.pid).state is ProcessState.STOPPED, "all its threads have stopped")
    stopped = await reader.read(GpuLook())
    assert stopped.api.state is ApiState.TIMEOUT
    assert (stopped.own_demand, stopped.counters, stopped.gauges) == (None, {}, {})
    llama.send_signal(signal.SIGCONT)
    assert (await work).status == 200
    again = await reader.read(GpuLook())
    assert (again.api.state, again.own_demand) == (ApiState.OK, 0)

    llama.kill()
    await llama.wait()
    assert (await reader.read(GpuLook())).api.state is ApiState.REFUSED
