"""Sampling in virtual time: a window closes at every boundary, whatever the sweeps and the clocks do."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.observe import ClosedWindow, fold, grid_of
from agent.sample import Sampler, fresh_window
from agent.verdicts import Sample
from tests.agent.build_samples import error, gpu, held, idle, sample
from tests.virtual_time import VirtualClock, run
from wire.messages import Allocation, AllocationState, Verdict
from wire.reasons import Reason, ReasonCode

GRID = grid_of("gpu-01", timedelta(minutes=5), timedelta(seconds=10))
DEADLINE = timedelta(seconds=20)
START = GRID.window_begins_seconds(4)  # on a boundary: the first, cut window is whole here


class Node:
    """A sampler in virtual time, and everything that it told the disk."""

    def __init__(self, take_sample, start_seconds: float = START) -> None:
        self.clock = VirtualClock(start_seconds)
        self.sampler = Sampler(GRID, self.clock, take_sample, DEADLINE, fresh_window(GRID, self.clock))

    async def run_for(self, seconds: float) -> list[ClosedWindow]:
        task = asyncio.create_task(self.sampler.run())
        await asyncio.sleep(seconds)
        assert not task.done(), task
        task.cancel()
        await asyncio.wait({task})
        turns = [self.sampler.turns.get_nowait() for _ in range(self.sampler.turns.qsize())]
        return [turn.closed for turn in turns if turn.closed is not None]


def closed_by(take_sample, seconds: float, during: Callable[[Node], None] | None = None) -> list[ClosedWindow]:
    async def story() -> list[ClosedWindow]:
        node = Node(take_sample)
        if during is not None:
            asyncio.get_running_loop().call_later(450, during, node)
        return await node.run_for(seconds)

    return run(story())


def verdicts(windows: list[ClosedWindow]) -> list[tuple[int, list[Verdict]]]:
    return [(window.window.number, [each.verdict for each in fold(window)]) for window in windows]


async def two_idle() -> Sample:
    return sample(idle(0), idle(1))


C, H, U = [Verdict.CANDIDATE] * 2, [Verdict.HELD] * 2, [Verdict.UNKNOWN] * 2


def test_every_window_is_closed_with_all_its_samples_and_the_first_one_is_cut():
    windows = closed_by(two_idle, 1201)
    assert verdicts(windows) == [(4, U), (5, C), (6, C), (7, C)]
    assert [len(window.samples) for window in windows] == [30] * 4
    assert [window.cut for window in windows] == [True, False, False, False]
    assert [window.window.last_closed for window in windows] == [None, 4, 5, 6]
    assert [window.closed_at - window.window.started_at for window in windows] == [timedelta(minutes=5)] * 4


def test_windows_that_nobody_watched_are_over_too_for_whoever_hears_which_was_the_last():
    """A node that slept from the end of an idle window on: nothing of before makes a GPU free now."""

    async def story() -> tuple[list[ClosedWindow], int, int | None]:
        node = Node(two_idle)
        asyncio.get_running_loop().call_later(595, setattr, node.clock, "ahead_seconds", START + 1000)
        windows = await node.run_for(700)
        return windows, node.sampler.window.number, node.sampler.window.last_closed

    windows, number, last_closed = run(story())
    assert verdicts(windows) == [(4, U), (5, C)]
    assert (number, last_closed) == (9, 8)


def test_a_sweep_that_hangs_stops_no_window_and_no_second_one_is_started():
    calls = 0

    async def hangs_after_10() -> Sample:
        nonlocal calls
        calls += 1
        if calls > 40:
            await never()
        return await two_idle()

    async def never() -> None:
        while True:  # not even a cancellation ends it
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
                return

    windows = closed_by(hangs_after_10, 1201)
    assert verdicts(windows) == [(4, U), (5, U), (6, U), (7, U)]
    assert calls == 41
    details = [error.detail for window in windows for each in window.samples for error in each.errors]
    assert details[0] == "no answer within 20 s"
    assert set(details[1:]) == {"an earlier reading has not returned yet"}
    assert len(windows[3].samples) == 30


def test_a_sweep_that_raises_is_an_error_in_the_window_and_told_once(caplog):
    caplog.set_level(logging.INFO)
    calls = 0

    async def broken_for_a_while() -> Sample:
        nonlocal calls
        calls += 1
        if 40 < calls < 50:
            raise RuntimeError("no driver")
        return await two_idle()

    windows = closed_by(broken_for_a_while, 901)
    assert verdicts(windows) == [(4, U), (5, U), (6, C)]
    assert fold(windows[1])[0].reasons == [Reason(ReasonCode.SAMPLE_ERROR, "RuntimeError: no driver")]
    assert caplog.text.count("GPUs cannot be judged: sample_error") == 1
    assert caplog.text.count("GPUs can be judged again") == 1
    assert caplog.text.count("Traceback") == 1


def test_windows_are_closed_also_when_no_sample_ever_came():
    async def broken() -> Sample:
        raise RuntimeError("no driver")

    windows = closed_by(broken, 601)
    assert verdicts(windows) == [(4, []), (5, [])]
    assert len(windows[1].samples) == 30


def test_a_sweep_that_takes_longer_than_a_tick_skips_ticks_without_drift():
    async def slow() -> Sample:
        await asyncio.sleep(12)
        return await two_idle()

    windows = closed_by(slow, 1201)
    assert [len(window.samples) for window in windows[1:]] == [15, 15, 15]
    assert fold(windows[1])[0].reasons == [Reason(ReasonCode.TOO_FEW_SAMPLES, "15 of 30")]


def test_a_sample_that_ends_after_the_boundary_counts_for_the_window_in_which_it_ended():
    calls = 0

    async def last_one_late() -> Sample:
        nonlocal calls
        calls += 1
        if calls == 60:
            await asyncio.sleep(15)
            return sample(held(0), held(1))
        return await two_idle()

    assert verdicts(closed_by(last_one_late, 901)) == [(4, U), (5, C), (6, H)]


def test_after_a_suspend_the_open_window_lacks_samples_and_the_lost_ones_are_missing():
    def sleep_an_hour(node: Node) -> None:
        node.clock.ahead_seconds += 3600

    windows = closed_by(two_idle, 1201, sleep_an_hour)
    assert [window.window.number for window in windows] == [4, 5, 17, 18, 19]
    assert [verdict for _, verdict in verdicts(windows)] == [U, U, U, C, C]
    assert fold(windows[1])[0].reasons[0].code is ReasonCode.TOO_FEW_SAMPLES


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=5))
def test_a_wall_clock_that_jumps_changes_nothing_but_labels(jumps_seconds):
    def jump(node: Node) -> None:
        for number, seconds in enumerate(jumps_seconds):
            asyncio.get_running_loop().call_later(70 * number, jump_by, node, seconds)

    def jump_by(node: Node, seconds: int) -> None:
        node.clock.wall_offset = timedelta(seconds=seconds)

    jumped, calm = closed_by(two_idle, 1201, jump), closed_by(two_idle, 1201)
    assert verdicts(jumped) == verdicts(calm)
    assert [window.samples for window in jumped] == [window.samples for window in calm]


def woken_by(take_sample: Callable[[], Awaitable[Sample]], samples: int) -> list[bool]:
    """Whether each of the samples woke the heartbeat."""

    async def story() -> list[bool]:
        node = Node(take_sample)
        task = asyncio.create_task(node.sampler.run())
        woken = []
        for _ in range(samples):
            await asyncio.sleep(9.9)
            woken.append(node.sampler.changed.is_set())
            node.sampler.changed.clear()
        task.cancel()
        await asyncio.wait({task})
        return woken

    return run(story())


def test_a_changed_verdict_and_only_that_wakes_the_heartbeat():
    answers = iter([sample(idle()), sample(idle()), sample(held()), sample(held(percent=51)), sample(idle())])

    async def answer() -> Sample:
        return next(answers)

    assert woken_by(answer, 5) == [True, False, True, False, True]


def test_a_gpu_that_a_scheduler_gives_away_is_told_at_once():
    free, given = (Allocation(state) for state in (AllocationState.FREE, AllocationState.ALLOCATED))
    answers = iter([free, free, given, given])

    async def answer() -> Sample:
        return sample(replace(idle(), allocation=next(answers)))

    assert woken_by(answer, 4) == [True, False, True, False]


def test_which_gpus_a_window_must_have_is_told_at_once_and_survives_errors():
    answers = iter([error("no driver"), sample(idle(0)), sample(idle(0), idle(1)), error("no driver")])

    async def growing() -> Sample:
        return next(answers)

    async def story():
        node = Node(growing)
        await node.run_for(0)
        node = Node(growing)
        task = asyncio.create_task(node.sampler.run())
        await asyncio.sleep(29)
        task.cancel()
        await asyncio.wait({task})
        return [[gpu.index for gpu in node.sampler.turns.get_nowait().open.gpus] for _ in range(2)], node.sampler.window

    told, window = run(story())
    assert told == [[0], [0, 1]]
    assert [gpu.index for gpu in window.gpus] == [0, 1]


def test_a_node_whose_process_list_proves_nothing_says_so_once(caplog):
    async def blind() -> Sample:
        return sample(gpu(0, Verdict.UNKNOWN, Reason(ReasonCode.PROCESS_VIEW, "a PID namespace of its own")))

    closed_by(blind, 301)
    assert caplog.text.count("process_view: the list of processes proves nothing here: a PID namespace") == 1


def test_the_latest_sample_is_as_old_as_the_beginning_of_its_sweep():
    async def slow() -> Sample:
        await asyncio.sleep(5)
        return sample(idle())

    async def story() -> float:
        node = Node(slow)
        task = asyncio.create_task(node.sampler.run())
        await asyncio.sleep(8)
        age_seconds = node.clock.boottime_seconds() - node.sampler.latest.began_seconds
        task.cancel()
        await asyncio.wait({task})
        return age_seconds

    assert run(story()) == 8
