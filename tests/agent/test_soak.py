"""Neither memory nor file handles grow. SOAK_SAMPLES sets how long it is looked at: `make soak` takes 100,000."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.agent.test_run import NODE, write_config
from tests.fake_nvml import FakeGpu, FakeNvml, FakeProcess, fake_uuid
from tests.nats_server import NatsServer

SAMPLES = int(os.environ.get("SOAK_SAMPLES", "300"))
MOST_GROWTH_KIB = 4 * 1024
MOST_PSS_KIB = 60 * 1024


@pytest.mark.soak
async def test_neither_memory_nor_file_handles_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [FakeGpu(fake_uuid(index), compute=(FakeProcess(os.getpid()),) * (index % 2)) for index in range(8)]
    for name, value in FakeNvml(tmp_path, gpus).env.items():
        monkeypatch.setenv(name, value)
    server = NatsServer(tmp_path / "nats", [NODE])
    await server.start()
    schedulers = json.dumps({"kubelet_socket": str(tmp_path / "none/kubelet.sock")})
    timing = {"window": "1s", "sample_every": "1ms", "heartbeat_every": "100ms"}
    config = write_config(server, tmp_path, collector="nvml", schedulers=schedulers, **timing)
    try:
        async with server.bot():
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.agent.soak_program", config, str(SAMPLES), stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
    finally:
        await server.kill()
    assert process.returncode == 0
    lines = [json.loads(line) for line in output.splitlines()]
    print(*lines, sep="\n")
    first, last = lines[2], lines[-1]  # by then everything was loaded and every cache is full
    assert last["samples"] == SAMPLES
    assert last["pss_kib"] - first["pss_kib"] < MOST_GROWTH_KIB
    assert last["pss_kib"] < MOST_PSS_KIB
    assert (last["own_fds"], last["worker_fds"]) == (first["own_fds"], first["worker_fds"])
    assert {line["processes"] for line in lines} == {2}
