"""What an agent costs on its node at 8 GPUs and default rates: the real program, NVML a fake in C."""

import asyncio
import contextlib
import itertools
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from nats.aio.msg import Msg

from bench.figure import Figure
from tests.fake_nvml import GIB, FakeGpu, FakeNvml, FakeProcess, fake_uuid
from tests.nats_server import NatsServer
from wire import subjects
from wire.files import write_private
from wire.link import Link
from wire.messages import decode_heartbeat

_ROOT = Path(__file__).parents[1]
_NODE = "gpu-01"
GPUS = 8
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_FIRST_SAMPLE_SECONDS = 90.0
_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Size:
    """`settle_seconds` leave the start out: it is paid once. `own_environment`: only what a node installs."""

    settle_seconds: float = 15.0
    seconds: float = 100.0
    pieces: int = 5
    own_environment: bool = True


@dataclass(frozen=True)
class Cost:
    cpu_seconds: float
    pss_bytes: int
    rss_bytes: int
    processes: int


def measure(size: Size = Size()) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, installed = python_with_agent(folder / "venv") if size.own_environment else (Path(sys.executable), "the dev venv")
        costs, beats = asyncio.run(_measure(folder, python, size))
    seconds = size.seconds / size.pieces
    used = [after.cpu_seconds - before.cpu_seconds for before, after in itertools.pairwise(costs)]
    work = (
        f"{GPUS} GPUs, a sample every 10 s, {beats} heartbeats heard in {size.seconds:g} s; "
        f"{costs[-1].processes} processes, {installed}"
    )
    spread = f"{size.pieces} times {seconds:g} s, in steps of {1000 / _TICKS_PER_SECOND:g} ms"
    return [
        Figure("agent, memory (PSS)", [cost.pss_bytes / _MIB for cost in costs], "MiB", work, "at most 60"),
        Figure(
            "agent, memory (RSS)",
            [cost.rss_bytes / _MIB for cost in costs],
            "MiB",
            "the same, with files that other programs have mapped too in full, and twice for two processes",
        ),
        Figure("agent, CPU", [100 * one / seconds for one in used], "% of one core", spread, "at most 1"),
        Figure(
            "agent, CPU per hour", [one * 3600 / seconds for one in used], "s", f"extrapolated from {seconds:g} s each"
        ),
    ]


def python_with_agent(folder: Path) -> tuple[Path, str]:
    """An environment with what a node installs. Without a package index: ours, which holds much more."""
    venv.create(folder, with_pip=True)
    command = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    command += ["--only-binary", ":all:", "-r", str(_ROOT / "requirements" / "agent.txt")]
    python = folder / "bin" / "python"
    done = subprocess.run([str(python), *command], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return python, "requirements/agent.txt"
    print(f"requirements/agent.txt could not be installed, measuring in the dev venv:\n{done.stderr[-500:]}")
    return Path(sys.executable), "the dev venv, which makes nats-py load aiohttp too"


async def _measure(folder: Path, python: Path, size: Size) -> tuple[list[Cost], int]:
    """The cost at the beginning and after each piece of time, and the heartbeats that came meanwhile."""
    driver = FakeNvml(folder, [gpu(index) for index in range(GPUS)])
    server, heard = NatsServer(folder / "bus", [_NODE]), asyncio.Queue[int]()
    await server.start()
    try:
        async with server.bot() as bus, _agent(folder, python, server, driver.env) as agent:
            await _listen(bus, heard)
            async with asyncio.timeout(_FIRST_SAMPLE_SECONDS):
                while await heard.get() != GPUS:
                    pass
            await asyncio.sleep(size.settle_seconds)
            while not heard.empty():
                heard.get_nowait()
            costs = [cost(agent.pid)]
            for _ in range(size.pieces):
                await asyncio.sleep(size.seconds / size.pieces)
                costs.append(cost(agent.pid))
    finally:
        await server.stop()
    return costs, heard.qsize()


def gpu(index: int) -> FakeGpu:
    """Every second GPU is held, by a process that exists: its name and owner are read like any other's."""
    if index % 2:
        return FakeGpu(fake_uuid(index))
    return FakeGpu(fake_uuid(index), utilization=97, used=60 * GIB, compute=(FakeProcess(os.getpid(), 60 * GIB),))


async def _listen(bus: Link, heard: asyncio.Queue[int]) -> None:
    async def on_heartbeat(message: Msg) -> None:
        heard.put_nowait(len(decode_heartbeat(message.subject, message.data).gpus))

    await bus.subscribe(subjects.HEARTBEATS, on_heartbeat)


@contextlib.asynccontextmanager
async def _agent(
    folder: Path, python: Path, server: NatsServer, driver: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    state_dir, config = folder / "agent", folder / "config.yaml"
    state_dir.mkdir(mode=0o700)
    write_private(state_dir / "node.nkey", server.seeds[_NODE] + "\n")
    bus = {"servers": [server.url], "insecure": True}
    config.write_text(yaml.safe_dump({"agent": {"node": _NODE, "state_dir": str(state_dir), "bus": bus}}))
    with (folder / "agent.log").open("ab") as log:
        agent = await asyncio.create_subprocess_exec(
            python, "-m", "agent", "run", "--config", config,
            cwd=_ROOT, env={**os.environ, **driver}, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield agent
    except BaseException:
        print((folder / "agent.log").read_text(errors="replace")[-4000:])
        raise
    finally:
        agent.terminate()
        await agent.wait()


def cost(pid: int) -> Cost:
    """Of the process and all below it. CPU of a child that has ended is in its parent's sums."""
    pids = _family(pid)
    pss_bytes, rss_bytes = (sum(_memory_bytes(one, kind) for one in pids) for kind in ("Pss", "Rss"))
    return Cost(sum(map(_cpu_seconds, pids)), pss_bytes, rss_bytes, len(pids))


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(below for child in children for below in _family(int(child)))]


def _cpu_seconds(pid: int) -> float:
    """utime, stime, cutime and cstime: the 14th to 17th field of stat, counted behind the name in brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND


def _memory_bytes(pid: int, kind: str) -> int:
    found = re.search(rf"^{kind}: +(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found, f"the kernel tells no {kind}"
    return int(found[1]) * _KIB
