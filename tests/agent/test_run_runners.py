"""The whole agent with a runner: its ticks on the bus, through a kill, and beside a socket that hangs."""

import json
import os
import signal
from pathlib import Path
from statistics import median

import pytest

from agent.config import load
from agent.record import RecordLine
from agent.verdicts import Sample
from demo.runner import Runner, State
from tests.agent.answering import Reply, answering
from tests.agent.build_samples import held, process, sample
from tests.agent.test_run import NODE, Program, received, running, write_config
from tests.flow.record import recorded
from tests.nats_server import NatsServer, until
from wire import subjects
from wire.labels import Label
from wire.messages import Heartbeat, decode_heartbeat
from wire.ticks import Tick


@pytest.fixture
async def server(tmp_path):
    async with NatsServer(tmp_path / "nats", [NODE]) as server:
        yield server


def runner(url: str, **more: object) -> str:
    return json.dumps([{"name": "chat", "preset": "vllm", "url": url, **more}])


async def heard(bot, beats: list[Heartbeat]) -> None:
    async def hear(message) -> None:
        beats.append(decode_heartbeat(message.subject, message.data))

    await bot.subscribe(subjects.HEARTBEATS, hear)


TICK_SECONDS = 2.0
SLEPT_SECONDS = 3 * TICK_SECONDS  # after a longer gap nobody knows what was, and the clocks begin anew


async def test_an_agent_that_is_killed_in_the_middle_of_a_stall_goes_on_with_its_clocks(server, tmp_path):
    beats: list[Heartbeat] = []
    async with server.bot() as bot, Runner(State.HUNG) as vllm:
        more = {"runners": runner(vllm.url, canary=False), "runners_every": "2s", "heartbeat_every": "200ms"}
        path = write_config(server, tmp_path, **more)
        await heard(bot, beats)
        agent = await Program.started(path)

        def no_progress() -> float:
            return beats[-1].runners[0].no_progress_seconds if beats and beats[-1].runners else -1.0

        await until(lambda: no_progress() >= 2 * TICK_SECONDS, "the clock runs")
        before = beats[-1].runners[0]
        await agent.ended(signal.SIGKILL)
        beats.clear()
        agent = await Program.started(path)
        await until(lambda: beats and beats[-1].runners, "a tick of the new run")
        after = beats[-1].runners[0]
        await until(lambda: no_progress() >= after.no_progress_seconds + 1, "its clock runs on")
        await agent.ended(signal.SIGTERM)
        observations = await received(bot)
    assert before.completed == after.completed == 400
    passed = after.at_seconds - before.at_seconds
    grown = after.no_progress_seconds - before.no_progress_seconds
    print(f"{passed:.1f} s without an agent, the clock grew by {grown:.1f} s")
    assert grown <= passed + TICK_SECONDS / 2, "it does not jump"
    if passed <= SLEPT_SECONDS:
        assert grown == pytest.approx(passed, abs=TICK_SECONDS / 2), "nor does it begin anew"
    assert after.epoch == before.epoch
    told = [tick for observation in observations for tick in observation.ticks]
    assert {tick.runner for tick in told} == {"chat"}
    assert [tick.at_seconds for tick in told] == sorted({tick.at_seconds for tick in told}), "each once and in order"


async def test_gpus_are_judged_and_all_ticks_go_on_while_a_runners_socket_hangs(server, tmp_path):
    """The first answers nobody, the second works: both have ticks, and no sample comes late."""
    beats: list[Heartbeat] = []
    async with server.bot() as bot, answering() as silent, Runner(State.WORKING) as works:
        silent.routes |= {path: Reply(hang=True) for path in ("/health", "/metrics")}
        runners = [{"name": name, "preset": "vllm", "url": url} for name, url in (("a", silent.url), ("b", works.url))]
        more = {"runners": json.dumps(runners), "runners_every": "500ms", "heartbeat_every": "100ms"}
        await heard(bot, beats)
        agent = await Program.started(write_config(server, tmp_path, **more))

        def ticks_of(name: str) -> dict[float, Tick]:
            return {tick.at_seconds: tick for beat in beats for tick in beat.runners if tick.runner == name}

        await until(lambda: len(ticks_of("a")) >= 2, "two ticks of the runner that hangs: each waits for 5 s")
        ages = [gpu.age_seconds for beat in beats[2:] for gpu in beat.gpus]
        hung, good = ticks_of("a"), ticks_of("b")
        await agent.ended(signal.SIGTERM)
        windows = await received(bot)
    assert {(tick.api, tick.completed, tick.has_moved) for tick in hung.values()} == {("timeout", None, False)}
    first, second, *_ = sorted(hung)
    assert sum(first < at < second for at in good) >= 3, "ticks of the other went on between them"
    assert all(tick.api == "ok" for tick in good.values())
    assert any(tick.has_moved for tick in good.values())
    assert ages
    assert median(ages) < 0.5, "samples went on every 50 ms: behind a hang of 5 s most of them were older"
    assert all(window.gpus for window in windows)


async def test_a_model_that_only_our_own_canaries_ask_is_recorded_as_held_and_idle(server, tmp_path):
    """The GPU shows each canary in one sample. Windows in which it shows nothing else are those of nobody's work."""
    seen = 0
    async with Runner(State.RESTING) as vllm:

        async def take_sample() -> Sample:
            nonlocal seen
            before, seen = seen, len(vllm.generations)
            percent = 60 if seen > before else 0
            return sample(held(percent=percent, memory_used_bytes=1 << 30, processes=(process(7),)))

        def shown() -> list[RecordLine]:
            lines = recorded(config.state_dir)
            return [one for one in lines if one.utilization_max_percent == 60 and one.label is Label.HELD_IDLE]

        more = {"runners": runner(vllm.url), "runners_every": "500ms", "window": "10s", "sample_every": "200ms"}
        config = load(write_config(server, tmp_path, **more))
        async with running(config, take_sample):
            await until(shown, "a window of our own canary", 60)
    assert {one.verdict for one in recorded(config.state_dir)} == {"held"}


def proportional_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def test_an_agent_that_watches_runners_stays_under_60_mib(server, tmp_path):
    if not Path(f"/proc/{os.getpid()}/smaps_rollup").exists():
        pytest.skip("this kernel does not tell proportional sizes")
    beats: list[Heartbeat] = []
    async with server.bot() as bot, Runner() as vllm:
        more = {"runners": runner(vllm.url, canary=False), "runners_every": "200ms", "heartbeat_every": "200ms"}
        await heard(bot, beats)
        agent = await Program.started(write_config(server, tmp_path, **more))
        await until(lambda: beats and beats[-1].runners, "a tick")
        size = proportional_kib(agent._process.pid)
        await agent.ended(signal.SIGTERM)
    print(f"PSS {size / 1024:.1f} MiB")
    assert size < 60 * 1024
