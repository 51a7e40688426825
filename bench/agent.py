"""What an agent costs on its node at 8 GPUs and default rates: the real program, NVML a fake in C."""

import asyncio
import contextlib
import itertools
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from nats.aio.msg import Msg

from bench.environment import installed
from bench.figure import Figure
from tests.fake_nvml import GIB, FakeGpu, FakeNvml, FakeProcess, fake_uuid
from tests.nats_server import NatsServer
from wire import subjects
from wire.files import write_private
from wire.messages import decode_heartbeat

_ROOT = Path(__file__).parents[1]
_NODE = "gpu-01"
GPUS = 8
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_FIRST_SAMPLE_SECONDS = 90.0
_MOST_LOOKS = 100
_KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True)
class Size:
    """`settle_seconds` leave the start out: it is paid once. `own_environment`: only what a node installs."""

    settle_seconds: float = 15.0
    seconds: float = 60.0
    pieces: int = 3
    own_environment: bool = True


@dataclass(frozen=True)
class Cost:
    cpu_seconds: float
    pss_bytes: int
    rss_bytes: int
    processes: int


@dataclass(frozen=True)
class Run:
    """`costs` at the beginning and after each piece of time; `heartbeats`: sizes of those that came, in bytes."""

    costs: Sequence[Cost]
    heartbeats: Sequence[int]
    installed: str
    seconds: float

    def cpu_seconds(self) -> list[float]:
        """Of each piece of time."""
        return [after.cpu_seconds - before.cpu_seconds for before, after in itertools.pairwise(self.costs)]

    def cpu_seconds_per_hour(self) -> list[float]:
        pieces = self.cpu_seconds()
        return [one * 3600 * len(pieces) / self.seconds for one in pieces]

    def whole_cpu_seconds_per_hour(self) -> float:
        """Of the whole time: some of its pieces have a heartbeat in them; the window of each 5 min may be missing."""
        return sum(self.cpu_seconds()) * 3600 / self.seconds

    def pss_mib(self) -> list[float]:
        return [cost.pss_bytes / MIB for cost in self.costs]


def measure(size: Size = Size()) -> list[Figure]:
    ran = run(size)
    seconds = size.seconds / size.pieces
    work = (
        f"{GPUS} GPUs, a sample every 10 s, {len(ran.heartbeats)} heartbeats heard in {size.seconds:g} s; "
        f"{ran.costs[-1].processes} processes, {ran.installed}"
    )
    spread = f"{size.pieces} times {seconds:g} s"
    return [
        Figure("agent, memory (PSS)", ran.pss_mib(), "MiB", work, "at most 60"),
        Figure(
            "agent, memory (RSS)",
            [cost.rss_bytes / MIB for cost in ran.costs],
            "MiB",
            "the same, with files that other programs have mapped too in full, and twice for two processes",
        ),
        Figure("agent, CPU", [100 * one / seconds for one in ran.cpu_seconds()], "% of one core", spread, "at most 1"),
        Figure("agent, CPU per hour", ran.cpu_seconds_per_hour(), "s", f"extrapolated from {seconds:g} s each"),
    ]


@cache
def run(size: Size) -> Run:
    """Once for all who compare with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = installed(folder / "venv", "agent") if size.own_environment else None
        python = Path(sys.executable) if programs is None else programs / "python"
        words = "the dev venv, which makes nats-py load aiohttp too" if programs is None else "requirements/agent.txt"
        costs, heartbeats = asyncio.run(_measure(folder, python, size))
    return Run(costs, heartbeats, words, size.seconds)


async def _measure(folder: Path, python: Path, size: Size) -> tuple[list[Cost], list[int]]:
    driver = FakeNvml(folder, [gpu(index) for index in range(GPUS)])
    server, heard = NatsServer(folder / "bus", [_NODE]), asyncio.Queue[Msg]()
    async with server, server.bot() as bus, _agent(folder, python, server, driver.env) as agent:
        await bus.subscribe(subjects.HEARTBEATS, heard.put)
        async with asyncio.timeout(_FIRST_SAMPLE_SECONDS):
            while _gpus_in(await heard.get()) != GPUS:
                pass
        await asyncio.sleep(size.settle_seconds)
        while not heard.empty():
            heard.get_nowait()
        costs = [cost(agent.pid)]
        for _ in range(size.pieces):
            await asyncio.sleep(size.seconds / size.pieces)
            costs.append(cost(agent.pid))
    return costs, [len(heard.get_nowait().data) for _ in range(heard.qsize())]


def _gpus_in(message: Msg) -> int:
    return len(decode_heartbeat(message.subject, message.data).gpus)


def gpu(index: int) -> FakeGpu:
    """Every second GPU is held, by a process that exists: its name and owner are read like any other's."""
    if index % 2:
        return FakeGpu(fake_uuid(index))
    return FakeGpu(fake_uuid(index), utilization=97, used=60 * GIB, compute=(FakeProcess(os.getpid(), 60 * GIB),))


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
    for _ in range(_MOST_LOOKS):
        with contextlib.suppress(OSError):  # a child ended while we looked
            return _cost_of(_family(pid))
    raise ProcessLookupError(f"the processes below {pid} end faster than they can be looked at")


def _cost_of(pids: Sequence[int]) -> Cost:
    pss_bytes, rss_bytes = (sum(_memory_bytes(one, kind) for one in pids) for kind in ("Pss", "Rss"))
    return Cost(sum(map(_cpu_seconds, pids)), pss_bytes, rss_bytes, len(pids))


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(below for child in children for below in _family(int(child)))]


def _cpu_seconds(pid: int) -> float:
    """By the process's own CPU clock (clock_getcpuclockid), which is exact, and for children that have ended by cutime
    and cstime, the 16th and 17th field of stat, counted behind the name in brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime((~pid << 3) | 2) + sum(map(int, fields[13:15])) / _TICKS_PER_SECOND


def _memory_bytes(pid: int, kind: str) -> int:
    found = re.search(rf"^{kind}: +(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found, f"the kernel tells no {kind}"
    return int(found[1]) * _KIB
