"""The loops of runners on real servers: hangs, restarts of the agent, canaries by the runner's own record, and cost."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from agent.clock import Clock
from agent.runner_config import Canary, RunnerConfig, Source, StateLayer
from agent.runner_reading import GpuLook
from agent.runners.gpus import GpuWatch
from agent.runners.keep import Keeper
from agent.runners.plan import plan_of
from agent.runners.read import RunnerReader
from agent.runners.witness import KernelLog
from agent.ticks import RunnerWatch, Ticks, watches_of
from agent.verdicts import Sample
from bench.runners import Node, page_server
from demo.runner import Runner, State
from tests import build
from tests.agent.answering import Reply, answering
from tests.agent.build_samples import held, idle, sample
from tests.nats_server import until
from tests.runner_node import NodeClock
from tests.wire.test_ticks import FULL
from wire.configfile import Duration
from wire.messages import MAX_MESSAGE_BYTES, encode, fit
from wire.reasons import Reason, ReasonCode
from wire.ticks import MOST_RUNNERS, ApiState, CanaryOutcome, Tick, WitnessKind

EVERY = timedelta(seconds=0.2)


def no_gpus(_: RunnerConfig, __: float) -> GpuLook:
    return GpuLook()


@asynccontextmanager
async def watched(url: str, state_dir: Path, **config):
    made = RunnerConfig(name="chat", preset="vllm", url=url, **config)
    [watch] = watches_of([made], timedelta(seconds=30), state_dir)
    try:
        yield watch
    finally:
        await watch.close()


async def pass_ticks(watch: RunnerWatch, clock: NodeClock, times: int) -> Tick:
    """Ticks thirty seconds apart; a canary that was sent may end between two."""
    for _ in range(times):
        clock.at += 30
        tick = await watch.tick(clock, no_gpus, ())
        for _ in range(200):
            if watch.canaries.outstanding_seconds is None:
                break
            await asyncio.sleep(0.005)
    return tick


async def test_a_runner_that_works_is_never_asked(tmp_path):
    async with Runner(State.WORKING) as runner, watched(runner.url, tmp_path) as watch:
        clock = NodeClock()
        for _ in range(40):
            tick = await pass_ticks(watch, clock, 1)
            assert tick.has_moved or tick.at_seconds == 1030
        assert runner.generations == []


async def test_a_quiet_runner_is_asked_for_one_token_every_five_minutes_and_is_idle(tmp_path):
    async with Runner(State.RESTING) as runner, watched(runner.url, tmp_path) as watch:
        tick = await pass_ticks(watch, NodeClock(), 61)  # half an hour
        assert 4 <= len(runner.generations) <= 6
        assert (tick.canary, tick.no_progress_seconds, tick.waiting_seconds) == (CanaryOutcome.OK, 0, 0)


HASTY = Canary(first_token_timeout=Duration(seconds=0.05))


async def test_a_hang_behind_a_gauge_that_says_0_is_found_by_canaries(tmp_path):
    async with Runner(State.WORKING) as runner, watched(runner.url, tmp_path, canary=HASTY) as watch:
        clock = NodeClock()
        await pass_ticks(watch, clock, 3)
        await runner.put(State.HUNG_AT_ZERO)
        tick = await pass_ticks(watch, clock, 60)
        assert tick.canary is CanaryOutcome.TIMEOUT
        assert tick.canary_timeouts >= 3
        assert tick.no_progress_seconds > 1000
        assert tick.own_demand == 0


async def test_a_restart_of_the_agent_in_the_middle_of_a_stall_neither_restarts_nor_moves_its_clocks(tmp_path):
    async with Runner(State.ERRORING) as runner:
        clock = NodeClock()
        async with watched(runner.url, tmp_path) as watch:
            before = await pass_ticks(watch, clock, 21)
        async with watched(runner.url, tmp_path) as watch:
            after = await pass_ticks(watch, clock, 1)
    assert before.no_progress_seconds == 600
    assert (after.no_progress_seconds, after.ticks) == (630, before.ticks + 1)
    assert after.canary_errors - before.canary_errors in (0, 1), "the canary that ended with the agent is not counted"
    assert after.epoch == before.epoch


async def test_a_canary_that_the_agents_end_cuts_is_neither_failed_nor_good(tmp_path, caplog):
    """It would have been answered later, or never: nobody knows, so it counts for nothing, and the log says so."""
    caplog.set_level("INFO")
    async with Runner(State.HUNG) as runner:
        clock = NodeClock()
        async with watched(runner.url, tmp_path, canary=HASTY) as watch:
            before = await pass_ticks(watch, clock, 11)
        asked = len(runner.generations)
        async with watched(runner.url, tmp_path) as watch:  # this one waits for 75 s
            while watch.canaries.outstanding_seconds is None:
                clock.at += 30
                cut = await watch.tick(clock, no_gpus, ())
            await until(lambda: len(runner.generations) == asked + 1, "it came")
        assert caplog.text.count("canary is not concluded") == 1
        async with watched(runner.url, tmp_path, canary=HASTY) as watch:
            after = await pass_ticks(watch, clock, 3)
        assert len(runner.generations) == asked + 1, "two minutes are two minutes, also over a start of the agent"
    assert before.canary_timeouts == 2
    for tick in (cut, after):
        counts = (tick.canary_timeouts, tick.canary_errors, tick.canary_successes)
        assert counts == (before.canary_timeouts, 0, 0)
        assert tick.canary is CanaryOutcome.TIMEOUT, "the last that was concluded"
    assert after.canary_outstanding_seconds is None
    assert after.no_progress_seconds == cut.no_progress_seconds + 90, "who waits goes on to wait"


@pytest.mark.parametrize("text", ["", "{", '{"memory": 3}', "\xff"])
async def test_what_was_kept_and_cannot_be_read_is_said_and_begins_anew(tmp_path, text, caplog):
    (tmp_path / "runners").mkdir()
    (tmp_path / "runners" / "chat.json").write_text(text)
    assert Keeper(tmp_path / "runners", "chat").load().memory is None
    assert "begin anew" in caplog.text


async def test_a_disk_that_refuses_stops_no_tick(tmp_path, caplog):
    (tmp_path / "runners").write_text("a file in the place of the folder")
    async with Runner() as runner, watched(runner.url, tmp_path) as watch:
        clock = NodeClock()
        await pass_ticks(watch, clock, 3)
        assert caplog.text.count("cannot be kept") == 1


async def test_a_runner_whose_socket_hangs_delays_nobody_else_and_its_own_ticks_go_on(tmp_path):
    async with answering() as hanging, Runner() as good:
        hanging.routes |= {path: Reply(hang=True) for path in ("/health", "/metrics")}
        watches = []
        for name, server in (("hangs", hanging), ("works", good)):
            config = RunnerConfig(name=name, preset="vllm", url=server.url, canary=False)
            keeper = Keeper(tmp_path, name)
            reader = RunnerReader(config, answer_seconds=1)
            watches.append(RunnerWatch(config, plan_of(config, EVERY.total_seconds()), reader, keeper, keeper.load()))
        ticks = Ticks(watches, Clock(), EVERY, no_gpus, KernelLog(tmp_path / "none"))
        running = asyncio.create_task(ticks.run())
        taken = []

        def goes_on():
            """While the other one hangs for a second: a loop that it held up could take one tick of this, or two."""
            taken.extend(ticks.drain())
            at = {name: [tick.at_seconds for tick in taken if tick.runner == name] for name in ("hangs", "works")}
            return any(
                sum(first < works < second for works in at["works"]) >= 3 for first, second in pairwise(at["hangs"])
            )

        await until(goes_on, "ticks of the one that works between two of the one that hangs")
        running.cancel()
        await asyncio.wait({running})
        assert {tick.api for tick in taken if tick.runner == "hangs"} == {ApiState.TIMEOUT}
        assert {tick.api for tick in taken if tick.runner == "works"} == {ApiState.OK}


async def test_a_kernel_log_that_cannot_be_read_is_told_once(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    async with Runner() as runner, watched(runner.url, tmp_path, canary=False) as watch:
        ticks = Ticks([watch], Clock(), timedelta(seconds=0.05), no_gpus, KernelLog(tmp_path / "none"))
        running = asyncio.create_task(ticks.run())
        taken = []
        await until(lambda: taken.extend(ticks.drain()) or len(taken) > 5, "some ticks")
        running.cancel()
        await asyncio.wait({running})
    assert caplog.text.count("kernel's log cannot be read") == 1


async def test_a_bug_in_reading_one_runner_is_told_once_and_reads_nothing(tmp_path, caplog):
    class Broken(RunnerReader):
        async def read(self, gpu):
            raise RuntimeError("a bug")

    config = RunnerConfig(name="chat", preset="vllm", url="http://127.0.0.1:9")
    keeper = Keeper(tmp_path, "chat")
    watch = RunnerWatch(config, plan_of(config, 30.0), Broken(config), keeper, keeper.load())
    clock = NodeClock()
    tick = await pass_ticks(watch, clock, 3)
    assert tick.missing == ["the reading failed: RuntimeError"]
    assert caplog.text.count("which is a bug") == 1
    await watch.close()


async def test_the_latest_ticks_have_their_age_and_an_old_one_is_not_now(tmp_path):
    async with Runner() as runner, watched(runner.url, tmp_path) as watch:
        clock = NodeClock()
        ticks = Ticks([watch], clock, timedelta(seconds=30), no_gpus, KernelLog(tmp_path / "none"))
        assert ticks.latest() == []
        await pass_ticks(watch, clock, 1)
        clock.at += 40
        assert [tick.age_seconds for tick in ticks.latest()] == [40.0]
        clock.at += 51
        assert ticks.latest() == []


async def test_a_fresh_canary_before_a_remedy_is_the_one_on_its_way_or_a_new_one(tmp_path):
    async with Runner() as runner, watched(runner.url, tmp_path) as watch:
        both = await asyncio.gather(watch.canaries.fresh(), watch.canaries.fresh())
        assert [result.outcome for result in both] == ["ok", "ok"]
        assert len(runner.generations) == 1


async def test_a_training_job_is_watched_by_file_and_process_alone(tmp_path):
    (tmp_path / "step").write_text("100")
    (tmp_path / "pid").write_text("1")
    config = RunnerConfig(
        name="train",
        preset="generic",
        progress=[Source(file=tmp_path / "step")],
        demand=Source(while_process_runs=True),
        state=StateLayer(pid_file=tmp_path / "pid"),
    )
    [watch] = watches_of([config], timedelta(seconds=30), tmp_path)
    clock = NodeClock()
    await pass_ticks(watch, clock, 2)
    (tmp_path / "step").write_text("110")
    moved = await pass_ticks(watch, clock, 1)
    standing = await pass_ticks(watch, clock, 4)
    (tmp_path / "step").write_text("")
    unread = await pass_ticks(watch, clock, 2)
    assert (moved.has_moved, moved.demand, moved.signal_class) == (True, 1, "Q")
    assert (standing.no_progress_seconds, unread.no_progress_seconds) == (120, 120)
    assert unread.missing == ["progress_0: the file is empty"]
    await watch.close()


MOST_CALLS = 12_000  # some 9,700 now, which is 5 to 9 ms of processor time: bench/runners.py measures that


async def test_the_work_of_a_tick_of_four_runners_is_bounded_however_long_their_pages_are(tmp_path):
    """Calls of functions are counted: this says the same on every machine."""
    counts = {}
    for lines in (0, 1000):
        async with page_server(lines) as url:
            node = Node(url, tmp_path / str(lines))
            ticks = await node.tick()
            counts[lines] = min([await node.calls_of_a_tick() for _ in range(5)])
    assert {tick.completed for tick in ticks} == {42}
    print(counts)
    assert counts[1000] < MOST_CALLS
    assert counts[1000] < counts[0] + 400, "lines of others cost next to nothing"


async def test_the_samplers_sweeps_are_seen_with_their_highest_and_what_ran_out_of_time_is_a_witness():
    now = [0.0]
    answers = [sample(idle(0), idle(1)), sample(idle(0), held(1)), Sample((), (_LATE,))]

    async def take() -> Sample:
        now[0] += 10
        return answers.pop(0)

    watch = GpuWatch(take, lambda: now[0])
    assert watch.look("all", 0.0).utilization_percent is None
    for _ in range(2):
        await watch.sample()
    both = watch.look("all", 0.0)
    quiet = watch.look([build.gpu_uuid(0)], 0.0)
    assert both.utilization_percent > 3 >= quiet.utilization_percent == 0
    await watch.sample()
    late = watch.look("all", 20.0)
    assert late.utilization_percent is None
    assert [witness.kind for witness in late.witnesses] == [WitnessKind.SWEEP_TIMEOUT]


async def test_what_a_gpu_shows_beside_our_own_canary_is_marked_and_no_other_gpu_is(tmp_path):
    async def take() -> Sample:
        return sample(held(0), held(1))

    async with Runner(State.HUNG) as runner, watched(runner.url, tmp_path, gpus=[build.gpu_uuid(1)]) as watch:
        ticks = Ticks([watch], NodeClock(), timedelta(seconds=30), no_gpus, KernelLog(tmp_path / "none"))
        gpus = GpuWatch(take, lambda: 0.0)
        gpus.is_asked = ticks.is_asked
        assert [gpu.beside_canary for gpu in (await gpus.sample()).gpus] == [False, False]
        watch.canaries.start()
        assert [gpu.beside_canary for gpu in (await gpus.sample()).gpus] == [False, True]


_LATE = Reason(ReasonCode.SAMPLE_ERROR, "NVML did not answer within 15 s")


def test_the_ticks_of_eight_runners_fit_into_one_report():
    ticks = [FULL] * (10 * MOST_RUNNERS)
    report = fit(build.observation(ticks=ticks))
    assert len(report.ticks) == len(ticks)
    assert len(encode(report)) <= MAX_MESSAGE_BYTES
