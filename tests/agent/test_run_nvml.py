"""The whole agent on a driver that hangs for ever, and let go of by a person: it says so, lives on, and comes back."""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from agent.collectors.child import GRACE
from agent.collectors.nvml import _PATIENCE
from agent.config import AgentConfig
from agent.run import SWEEP_GRACE
from demo.runner import Runner, State
from tests.agent.command import run_command
from tests.agent.test_run import NODE, Program, write_config
from tests.fake_nvml import FakeNvml
from tests.nats_server import NatsServer, until
from wire import subjects
from wire.messages import Heartbeat, decode_heartbeat

KNOWN_WITHIN = timedelta(seconds=45)
DEADLINE_SECONDS = 3  # a worker must be able to start within it on a busy machine


def test_at_default_settings_a_driver_that_hangs_is_reported_within_45_seconds() -> None:
    """A hang that begins right after a reading is met by the next one, which ends at its deadline, and is told at once.

    A worker that does not die is waited for a moment only, before the error is given.
    """
    config = AgentConfig()
    assert config.sample_every + config.sample_deadline + SWEEP_GRACE + 2 * GRACE <= KNOWN_WITHIN
    assert _PATIENCE < SWEEP_GRACE


class Node:
    """A running agent, what it says, and the processes that it started."""

    def __init__(self, config: Path, fake: FakeNvml) -> None:
        self.config, self.fake, self.heard = config, fake, list[Heartbeat]()
        self.agent = Program("-m", "agent", "run", "--config", config)

    def workers(self) -> list[int]:
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.pid and b"nvml_worker" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found

    @property
    def pid(self) -> int:
        assert self.agent._process is not None
        return self.agent._process.pid

    def resident_kib(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))

    def reads(self) -> bool:
        return bool(self.heard and self.heard[-1].gpus and not self.heard[-1].errors)

    def fails_with(self, words: str) -> bool:
        return bool(self.heard and any(words in error.detail for error in self.heard[-1].errors))


@pytest.fixture
async def chat() -> AsyncIterator[Runner]:
    async with Runner(State.WORKING) as vllm:
        yield vllm


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chat: Runner) -> AsyncIterator[Node]:
    fake = FakeNvml(tmp_path, 2)
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    server = NatsServer(tmp_path / "nats", [NODE])
    runners = json.dumps([{"name": "chat", "preset": "vllm", "url": chat.url, "canary": False}])
    timing = {
        "runners": runners,
        "runners_every": "300ms",
        "sample_every": "100ms",
        "sample_deadline": f"{DEADLINE_SECONDS}s",
        "heartbeat_every": "100ms",
    }
    schedulers = json.dumps({"kubelet_socket": str(tmp_path / "none/kubelet.sock")})
    node = Node(write_config(server, tmp_path, window="1s", collector="nvml", schedulers=schedulers, **timing), fake)

    async def hear(message: Msg) -> None:
        node.heard.append(decode_heartbeat(message.subject, message.data))

    async with server, server.bot() as bot:
        await bot.subscribe(subjects.HEARTBEATS, hear)
        await node.agent.start()
        await until(node.reads, "the GPUs are read", 30)
        yield node
        fake.set_driver(hang=())
        assert await node.agent.ended(signal.SIGTERM) == 0, node.agent.stderr


async def test_a_driver_that_hangs_for_ever_is_reported_while_everything_else_goes_on(node: Node) -> None:
    before_kib, before = node.resident_kib(), len(node.heard)
    node.fake.set_driver(hang=("nvmlDeviceGetUUID", "nvmlInitWithFlags"))
    await until(lambda: node.fails_with(""), "that the GPUs cannot be read", 30)
    errors = [error.detail for beat in node.heard[before:] for error in beat.errors]
    assert errors[0] == f"NVML did not answer within {DEADLINE_SECONDS} s", "before the sampler gives it up"
    hanging = len(node.heard)

    def goes_on() -> bool:
        """Heartbeats, and readings of the runner."""
        assert len(node.workers()) <= 1
        assert not node.reads()
        beats = node.heard[hanging:]
        read_at = {tick.at_seconds for beat in beats for tick in beat.runners if tick.has_moved}
        return len(beats) >= 25 and len(read_at) >= 3

    await until(goes_on, "everything else goes on")
    assert node.resident_kib() - before_kib < 8 * 1024
    node.fake.set_driver(hang=())
    await until(node.reads, "the GPUs are read again", 30)
    assert len(node.workers()) == 1


async def test_a_person_makes_the_agent_let_go_and_take_up_the_gpus_again(node: Node) -> None:
    command = ["release", "--for", "10m", "--reason", "gpu reset", "--config", str(node.config)]
    result = await asyncio.to_thread(run_command, *command)
    assert result.exit_code == 0, result.output
    assert "The agent has let go of the GPUs" in result.stdout
    assert node.workers() == []
    await until(lambda: node.fails_with("(gpu reset)"), "that the GPUs were released")
    assert node.fails_with("(gpu reset)")
    assert (await asyncio.to_thread(run_command, "release", "--end", "--config", str(node.config))).exit_code == 0
    await until(node.reads, "the GPUs are read again", 30)
