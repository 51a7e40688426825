"""The agent over many samples of a fake driver: memory, file handles and processes stay as they are."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from bench.soak.row import Row, growth
from tests.fake_nvml import FakeGpu, FakeNvml, FakeProcess, fake_uuid
from tests.nats_server import NatsServer

POINTS = 10  # so often the program measures itself
_NODE = "gpu-01"
_ROOT = Path(__file__).parents[2]
_MOST_GROWTH_MIB = 2.0
_MOST_MIB = 60.0


async def measured(folder: Path, samples: int) -> list[Row]:
    """Raises RuntimeError with its last words when the agent does not come to its end."""
    driver = FakeNvml(folder, [_gpu(index) for index in range(8)])
    async with NatsServer(folder / "nats", [_NODE]) as server, server.bot():
        points = await _points(_config(folder, server), driver.env, samples)
    assert points[-1]["samples"] == samples
    return _rows(points)


def _gpu(index: int) -> FakeGpu:
    """Every second one is held."""
    return FakeGpu(fake_uuid(index), compute=(FakeProcess(os.getpid()),) * (index % 2))


def _config(folder: Path, server: NatsServer) -> Path:
    """As fast as it goes: a window each second, ten heartbeats."""
    bus = {"servers": [server.url], "credentials": str(server.key_file(_NODE)), "insecure": True}
    own = {"node": _NODE, "mode": "demo", "state_dir": str(folder / "state"), "bus": bus, "collector": "nvml"}
    rates = {"window": "1s", "sample_every": "1ms", "heartbeat_every": "100ms"}
    schedulers = {"kubelet_socket": str(folder / "none" / "kubelet.sock")}
    file = folder / "agent.yaml"
    file.write_text(yaml.safe_dump({"agent": {**own, **rates, "schedulers": schedulers}}), encoding="utf-8")
    return file


async def _points(config: Path, driver: Mapping[str, str], samples: int) -> list[dict[str, int]]:
    command = [sys.executable, "-m", "bench.soak.agent_program", str(config), str(samples), str(POINTS)]
    program = await asyncio.create_subprocess_exec(
        *command, cwd=_ROOT, env={**os.environ, **driver},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        output, errors = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    if program.returncode:
        raise RuntimeError(f"the agent ended with {program.returncode}:\n{errors.decode(errors='replace')[-2000:]}")
    return [json.loads(line) for line in output.splitlines()]


def _rows(points: Sequence[Mapping[str, int]]) -> list[Row]:
    middle, end = points[len(points) // 2 - 1], points[-1]

    def both(name: str) -> tuple[float, float]:
        return middle[name], end[name]

    of = "agent"
    memory = (middle["pss_kib"] / 1024, end["pss_kib"] / 1024)
    return [
        Row(of, "samples", "", *both("samples")),
        growth(of, "memory (PSS)", "MiB", memory, _MOST_GROWTH_MIB),
        Row(of, "memory (PSS), in all", "MiB", *memory, f"at most {_MOST_MIB:g}", _MOST_MIB),
        growth(of, "file handles", "", both("own_fds"), 0),
        growth(of, "file handles of its worker", "", both("worker_fds"), 0),
        Row(of, "processes", "", *both("processes"), "at most 2", 2),
    ]
