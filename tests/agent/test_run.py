"""The whole agent on the real nats-server: killed in the middle, rebooted, started twice, stopped."""

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import nats.errors
import pytest

from agent.clock import Clock
from agent.config import AgentConfig, load
from agent.observe import grid_of
from agent.run import run
from agent.verdicts import Sample
from tests.agent.build_readings import idle_gpu, sweep_of
from tests.agent.build_samples import held, idle, sample
from tests.agent.command import write_recording
from tests.build import BOOT, OTHER_BOOT
from tests.nats_server import NatsServer, stream_bodies, until
from wire import subjects
from wire.configfile import ConfigError
from wire.link import NotConnectedError
from wire.messages import Heartbeat, Observation, Verdict, decode_heartbeat, decode_observation
from wire.reasons import Reason, ReasonCode

NODE = "node-a"
CUT = [Reason(ReasonCode.AGENT_RESTARTED)]


@pytest.fixture
async def server(tmp_path):
    async with NatsServer(tmp_path / "nats", [NODE]) as server:
        yield server


@pytest.fixture(autouse=True)
async def no_agent_left():
    yield
    while Program.all:
        await Program.all.pop().end_for_certain()


def write_config(server: NatsServer, folder: Path, **changes: str) -> Path:
    values = {
        "node": NODE,
        "mode": "demo",
        "state_dir": str(folder / "state"),
        "bus": json.dumps({"servers": [server.url], "credentials": str(server.key_file(NODE)), "insecure": True}),
        "window": "500ms",
        "sample_every": "50ms",
        "heartbeat_every": "30s",
        **changes,
    }
    path = folder / "config.yaml"
    path.write_text("agent:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items()))
    return path


class Program:
    """The agent as a process of its own; none outlives its test."""

    all: ClassVar[list["Program"]] = []

    def __init__(self, *arguments: object) -> None:
        self._arguments = [str(argument) for argument in arguments]
        self._process: asyncio.subprocess.Process | None = None
        self.stderr = b""

    @classmethod
    async def started(cls, config: Path, boot_id: str = BOOT) -> "Program":
        return await cls("-m", "tests.agent.agent_program", config, boot_id).start()

    async def start(self) -> "Program":
        Program.all.append(self)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._arguments, stderr=asyncio.subprocess.PIPE
        )
        return self

    async def ended(self, how: signal.Signals) -> int:
        assert self._process is not None
        assert self._process.returncode is None
        self._process.send_signal(how)
        return await self.result()

    async def end_for_certain(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self.result()

    async def result(self) -> int:
        assert self._process is not None
        _, self.stderr = await asyncio.wait_for(self._process.communicate(), 20)
        return self._process.returncode or 0


async def received(bot) -> list[Observation]:
    return [decode_observation(subjects.observations(NODE), body) for body in await stream_bodies(bot.jetstream())]


async def arrived(bot, count: int) -> list[Observation] | None:
    try:
        seen = await received(bot)
    except (nats.errors.Error, NotConnectedError):  # the broker has just come back
        return None
    return seen if len(seen) >= count else None


def verdicts(observation: Observation) -> set[Verdict]:
    return {gpu.verdict for gpu in observation.gpus}


def is_cut(observation: Observation) -> bool:
    return all(gpu.reasons == CUT for gpu in observation.gpus)


async def middle_of_a_window(config: AgentConfig) -> int:
    """The number of the window that is open, when it is about half over."""
    grid, clock = grid_of(NODE, config.window, config.sample_every), Clock()

    def is_half_over() -> bool:
        now = clock.boottime_seconds()
        passed = now - grid.window_begins_seconds(grid.window_number(now))
        return 0.45 < passed / config.window.total_seconds() < 0.6

    await until(is_half_over, "the middle of a window")
    return grid.window_number(clock.boottime_seconds())


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
async def test_killed_agents_and_brokers_lose_nothing_repeat_nothing_and_cut_windows_are_unknown(
    server, tmp_path, seed
):
    chance = random.Random(seed)
    path = write_config(server, tmp_path)
    config = load(path)
    async with server.bot() as bot:
        agent = await Program.started(path)
        killed_in = []
        for what in chance.sample(["agent", "broker", "agent", "both"], 4):
            seen = len(await received(bot))
            await until(lambda seen=seen: arrived(bot, seen + 2), "two more windows")
            if what in ("broker", "both"):
                await server.kill()
            if what in ("agent", "both"):
                killed_in.append(await middle_of_a_window(config))
                await agent.ended(signal.SIGKILL)
                if chance.random() < 0.5:  # the agent comes back in a later window
                    await until(lambda: Clock().boottime_seconds() > over(config, killed_in[-1]), "that window is over")
                agent = await Program.started(path)
            if what in ("broker", "both"):
                await server.start()
                await until(lambda: bot.is_connected, "the bot is back")
        seen = len(await received(bot))
        await until(lambda: arrived(bot, seen + 3), "three more windows")
        assert await agent.ended(signal.SIGTERM) == 0
        observations = await received(bot)

    numbers = [observation.window_number for observation in observations]
    assert [observation.seq for observation in observations] == list(range(1, len(observations) + 1))
    assert len({observation.spool_epoch for observation in observations}) == 1
    assert numbers == sorted(set(numbers))
    by_number = {observation.window_number: observation for observation in observations}
    assert all(is_cut(by_number[number]) for number in killed_in), killed_in
    # Before its first sample a new agent knows no GPU; a busy machine may let a window end before that.
    blank = [observation for observation in observations if not observation.gpus]
    assert len(blank) <= 1 + len(killed_in)
    assert all(len(observation.gpus) == 2 for observation in observations if observation not in blank)
    whole = [observation for observation in observations if not is_cut(observation)]
    assert len(whole) >= 3
    assert all(verdicts(observation) <= {Verdict.CANDIDATE, Verdict.UNKNOWN} for observation in whole)


def over(config: AgentConfig, number: int) -> float:
    return grid_of(NODE, config.window, config.sample_every).window_begins_seconds(number + 1)


async def test_after_a_reboot_the_window_of_the_old_boot_is_published_as_cut(server, tmp_path):
    path = write_config(server, tmp_path)
    async with server.bot() as bot:
        agent = await Program.started(path)
        await until(lambda: arrived(bot, 2), "two windows")
        number = await middle_of_a_window(load(path))
        await agent.ended(signal.SIGKILL)
        before = len(await received(bot))
        agent = await Program.started(path, OTHER_BOOT)
        seen = (await until(lambda: arrived(bot, before + 2), "two more windows"))[before:]
        assert await agent.ended(signal.SIGTERM) == 0
    assert (seen[0].boot_id, seen[0].window_number, is_cut(seen[0])) == (BOOT, number, True)
    assert (seen[1].boot_id, is_cut(seen[1])) == (OTHER_BOOT, True)


async def test_windows_are_recorded_and_spooled_without_any_bus_and_sent_later(server, tmp_path):
    await server.kill()
    path = write_config(server, tmp_path)
    record = tmp_path / "state/windows.jsonl"
    agent = await Program.started(path)
    await until(lambda: record.exists() and len(record.read_text().splitlines()) >= 6, "three windows on record")
    await server.start()
    async with server.bot() as bot:
        seen = await until(lambda: arrived(bot, 3), "the spooled windows", 20)
        assert await agent.ended(signal.SIGTERM) == 0
    recorded = [json.loads(line)["window"] for line in record.read_text().splitlines()]
    assert [observation.window_number for observation in seen[:3]] == recorded[:6:2]


# --- in this process --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def running(config: AgentConfig, take_sample) -> AsyncIterator[asyncio.Task]:
    stop = asyncio.Event()
    task = asyncio.create_task(run(config, stop, take_sample=take_sample))
    try:
        yield task
    finally:
        stop.set()
        await task


async def test_a_gpu_that_is_taken_is_told_at_once_not_at_the_next_heartbeat(server, tmp_path):
    heard: list[Heartbeat] = []
    current = sample(idle())

    async def take_sample() -> Sample:
        return current

    async def hear(message):
        heard.append(decode_heartbeat(message.subject, message.data))

    config = load(write_config(server, tmp_path, window="10m"))
    async with server.bot() as bot:
        await bot.subscribe(subjects.HEARTBEATS, hear)
        async with running(config, take_sample):
            await until(lambda: heard and heard[-1].gpus and heard[-1].gpus[0].verdict is Verdict.CANDIDATE, "idle")
            current = sample(held())
            await until(lambda: heard[-1].gpus[0].verdict is Verdict.HELD, "that it is taken", 15)
    assert heard[-1].gpus[0].age_seconds < 5
    assert heard[-1].boot_id == Clock().boot_id()
    assert len(heard) <= 4


async def test_a_second_agent_in_the_same_folder_is_refused_with_a_sentence(server, tmp_path):
    async def take_sample() -> Sample:
        return sample(idle())

    config = load(write_config(server, tmp_path))
    async with running(config, take_sample):
        await until(lambda: (config.state_dir / "spool.db").exists(), "the first one runs")
        with pytest.raises(ConfigError, match=r"another gpu-oncall-agent runs in .*state: stop it first"):
            await run(config, asyncio.Event(), take_sample=take_sample)


async def test_no_task_and_no_thread_is_left_behind(server, tmp_path):
    async def take_sample() -> Sample:
        return sample(idle())

    async with running(load(write_config(server, tmp_path)), take_sample) as task:
        await until(lambda: (tmp_path / "state/spool.db").exists(), "it runs")
        assert not task.done()
    await until(lambda: len(asyncio.all_tasks()) == 1, f"only this test's task is left of {asyncio.all_tasks()}")


async def test_a_failure_inside_ends_the_agent_loudly(server, tmp_path):
    class BrokenClock(Clock):
        reads = 0

        def wall(self):
            BrokenClock.reads += 1
            if BrokenClock.reads > 3:
                raise RuntimeError("no clock")
            return super().wall()

    async def take_sample() -> Sample:
        return sample(idle())

    config = load(write_config(server, tmp_path))
    with pytest.raises(ExceptionGroup) as told:
        await asyncio.wait_for(run(config, asyncio.Event(), clock=BrokenClock(), take_sample=take_sample), 20)
    assert told.group_contains(RuntimeError, match="no clock")


# --- the command ------------------------------------------------------------------------------------------------------


async def test_the_command_runs_on_a_recording_and_ends_cleanly_when_told_to(server, tmp_path):
    recording = write_recording(tmp_path, sweep_of(idle_gpu(0)))
    path = write_config(server, tmp_path, collector="replay", replay_file=str(recording))
    async with server.bot() as bot:
        agent = await Program("-m", "agent", "run", "--config", path).start()
        seen = await until(lambda: arrived(bot, 2), "two windows")
        assert await agent.ended(signal.SIGINT) == 0, agent.stderr
    assert (seen[0].collector, len(seen[0].gpus)) == ("replay", 1)
    assert b"agent runs node=node-a" in agent.stderr
    assert b"agent stopped" in agent.stderr
    assert b"Traceback" not in agent.stderr


async def test_a_config_that_cannot_work_is_a_sentence_and_exit_status_2(server, tmp_path):
    path = write_config(server, tmp_path)
    server.key_file(NODE).chmod(0o644)
    agent = await Program("-m", "agent", "run", "--config", path).start()
    assert await agent.result() == 2
    assert b"run chmod 600" in agent.stderr
    assert b"Traceback" not in agent.stderr
