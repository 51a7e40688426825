"""The fold: what feeds a clock, what clears it, and what lets it stand still."""

import pytest
from msgspec.structs import replace

from agent.runner_reading import Api, CanaryResult, GpuLook, RunnerProcess, RunnerReading
from tests.agent.progress_node import ALIVE, BUSY, GOOD, IDLE, LATE, MISSING, PLAN, Node, stalled
from wire.ticks import ApiState, CanaryOutcome, ProcessState, RunnerState, SignalClass, Witness, WitnessKind


def test_the_clock_counts_from_the_moment_that_somebody_waits_and_nothing_moves():
    node = Node()
    node.sees(IDLE, 100)
    assert node.sees(BUSY).no_progress_seconds == 0, "a quiet night is no stall"
    assert node.sees(BUSY, 4).no_progress_seconds == 120


CLEARS = {
    "a token": replace(BUSY, counters={"tokens": 101.0}),
    "a completion": replace(BUSY, completed=6.0),
    "a queue that is known to be empty": IDLE,
    "a good canary": replace(BUSY, canary=GOOD),
    "loading": replace(BUSY, state=RunnerState.LOADING),
    "paused": replace(BUSY, state=RunnerState.PAUSED),
}


@pytest.mark.parametrize("name", CLEARS)
def test_what_clears_the_clock_and_all_that_was_counted_with_it(name):
    node = stalled(10)
    node.sees(replace(BUSY, canary=LATE))
    node.sees(replace(BUSY, witnesses=(Witness(WitnessKind.XID),)))
    tick = node.sees(CLEARS[name])
    if name == "a queue that is known to be empty":
        assert tick.no_progress_seconds > 0, "not while our canary has failed"
        return
    assert tick.no_progress_seconds == 0
    assert (tick.canary_timeouts, tick.witness_ticks, tick.ticks) == (0, 0, 0)


def test_an_empty_queue_clears_the_clock_where_no_canary_failed():
    node = stalled(10)
    assert node.sees(IDLE).no_progress_seconds == 0


def test_a_good_canary_does_not_clear_the_clock_of_work_that_is_stuck():
    node = stalled(10)
    tick = node.sees(replace(BUSY, canary=GOOD))
    assert (tick.no_progress_seconds, tick.unserved_seconds, tick.canary_successes) == (0, 630, 1)


def test_a_canary_that_is_outstanding_or_failed_is_somebody_who_waits_though_the_gauge_says_nobody():
    node = Node()
    node.sees(IDLE, 10)
    assert node.sees(replace(IDLE, canary_outstanding_seconds=30.0)).no_progress_seconds == 30
    assert node.sees(replace(IDLE, canary=LATE)).no_progress_seconds == 60
    assert node.sees(IDLE, 10).no_progress_seconds == 360


def test_a_busy_answer_says_that_somebody_waits_and_is_neither_good_nor_bad():
    node = Node()
    node.sees(IDLE, 10)
    tick = node.sees(replace(IDLE, canary=CanaryResult(CanaryOutcome.BUSY, 1.0)))
    assert (tick.canary_timeouts, tick.canary_errors) == (0, 0)
    assert node.sees(IDLE, 4).no_progress_seconds > 100


def test_our_own_mistake_says_nothing_about_the_runner():
    node = Node()
    node.sees(IDLE, 10)
    tick = node.sees(replace(IDLE, canary=CanaryResult(CanaryOutcome.CONFIG, 1.0)))
    assert (tick.no_progress_seconds, tick.config_error_seconds) == (0, 30)
    assert node.sees(IDLE, 20).config_error_seconds == 630


def test_our_own_canary_is_no_progress_also_when_the_page_shows_it_a_tick_late():
    node = stalled(5)
    after = replace(BUSY, completed=6.0, counters={"tokens": 101.0}, gauges={"kv": 0.1})
    node.sees(replace(BUSY, canary=GOOD, gauges={"kv": 0.0}))
    tick = node.sees(after)
    assert (tick.has_moved, tick.unserved_seconds) == (False, 360)
    assert node.sees(replace(after, counters={"tokens": 102.0})).has_moved


def test_progress_beside_our_own_canary_is_progress():
    node = stalled(5)
    assert node.sees(replace(BUSY, canary=GOOD, counters={"tokens": 105.0})).has_moved


def test_missing_readings_stop_the_clock_and_count_when_they_are_back_unmoved():
    node = stalled(5)
    assert node.sees(MISSING, 3).no_progress_seconds == 300
    assert node.sees(BUSY).no_progress_seconds == 420
    node.sees(MISSING, 3)
    assert node.sees(replace(BUSY, counters={"tokens": 200.0})).no_progress_seconds == 0


def test_readings_that_stay_away_never_feed_the_clock_by_themselves():
    node = stalled(5)
    assert node.sees(MISSING, 100).no_progress_seconds == 300


def test_after_six_minutes_a_failed_canary_lets_the_clock_go_on_without_readings():
    node = stalled(5)
    node.sees(replace(BUSY, canary=LATE))
    tick = node.sees(MISSING, 20)
    assert tick.no_progress_seconds == 330 + 600 - 360 + 360


def test_a_missing_queue_is_not_an_empty_one():
    node = stalled(5)
    assert node.sees(replace(BUSY, own_demand=None), 3).no_progress_seconds == 300


def test_a_page_that_hangs_in_the_loop_of_the_work_is_evidence_and_not_missing():
    node = stalled(5)
    hangs = replace(MISSING, own_demand=None, witnesses=(Witness(WitnessKind.LOOP_HANGS),))
    tick = node.sees(hangs, 4)
    assert (tick.no_progress_seconds, tick.witness_ticks) == (420, 4)


def test_a_counter_that_fell_is_based_anew_without_a_verdict():
    node = stalled(5)
    assert node.sees(replace(BUSY, completed=2.0)).no_progress_seconds == 330
    assert node.sees(replace(BUSY, completed=3.0)).has_moved


def test_a_file_that_was_half_written_and_is_whole_again_is_no_progress():
    node = stalled(5)
    node.sees(replace(BUSY, completed=0.0))
    assert not node.sees(BUSY).has_moved


def test_class_q_learns_its_own_gaps_while_work_is_there():
    node = Node(replace(PLAN, signal_class=SignalClass.Q, canary=None))
    for done in range(50):
        node.sees(replace(BUSY, completed=float(done), demand=1.0), after=60.0)
    tick = node.sees(replace(BUSY, demand=1.0))
    assert (tick.gap_p99_seconds, tick.gaps) == (60, 49)


@pytest.mark.parametrize(
    ("configured", "reading", "seen"),
    [
        (SignalClass.A, BUSY, SignalClass.A),
        (SignalClass.A, replace(BUSY, counters={}), SignalClass.B),
        (SignalClass.A, replace(BUSY, counters={}, completed=None), SignalClass.C),
        (SignalClass.A, replace(BUSY, counters={}, completed=None, gauges={"expires": 7.0}), SignalClass.C),
        (SignalClass.A, replace(BUSY, counters={}, gauges={"expires": 7.0}), SignalClass.B),
        (SignalClass.B, replace(BUSY, counters={}, completed=None), SignalClass.C),
        (SignalClass.C, BUSY, SignalClass.C),
        (SignalClass.Q, BUSY, SignalClass.Q),
    ],
)
def test_the_class_is_never_better_than_what_was_really_read(configured, reading, seen):
    assert Node(replace(PLAN, signal_class=configured)).sees(reading, 2).signal_class is seen


def test_a_young_process_whose_api_never_answered_is_loading_and_an_old_one_is_dead():
    young = replace(ALIVE, age_seconds=40.0)
    mute = RunnerReading(api=Api(ApiState.REFUSED), process=young, load=100.0)
    node = Node()
    tick = node.sees(mute, 30)
    assert (tick.state, tick.api_dead_seconds, tick.loading_seconds) == (RunnerState.LOADING, 0, 870)
    assert node.sees(replace(mute, load=101.0)).loading_seconds == 0
    old = Node().sees(replace(mute, process=ALIVE), 30)
    assert (old.state, old.api_dead_seconds) == (RunnerState.READY, 870)


def test_that_a_runner_loads_cannot_be_concluded_where_nothing_of_it_can_be_read():
    mute = RunnerReading(api=Api(ApiState.REFUSED), process=replace(ALIVE, age_seconds=40.0))
    tick = Node().sees(mute, 30)
    assert (tick.loading_seconds, tick.unreadable_seconds) == (None, 870)


def test_a_process_is_gone_only_where_neither_api_nor_work_say_otherwise():
    gone = RunnerProcess(ProcessState.GONE)
    node = Node()
    node.sees(BUSY)
    assert node.sees(replace(BUSY, process=gone), 5).process_gone_ticks == 0
    tick = node.sees(replace(BUSY, process=gone, api=Api(ApiState.REFUSED)), 3)
    assert (tick.process_gone_ticks, tick.process_gone_seconds) == (3, 90)


def test_a_job_that_has_ended_is_gone_only_where_somebody_waits_for_it():
    node = Node(replace(PLAN, signal_class=SignalClass.Q, canary=None))
    job = RunnerReading(process=ALIVE, completed=5.0, demand=1.0)
    node.sees(job, 3)
    ended = replace(job, process=RunnerProcess(ProcessState.GONE))
    assert node.sees(replace(ended, demand=0.0), 5).process_gone_ticks == 0
    assert node.sees(ended, 3).process_gone_ticks == 3


def test_a_process_that_no_signal_reaches_for_a_minute_is_a_witness():
    node = Node()
    blocked = replace(BUSY, process=replace(ALIVE, state=ProcessState.BLOCKED))
    assert node.sees(blocked, 2).witnesses == []
    assert [witness.kind for witness in node.sees(blocked, 2).witnesses] == [WitnessKind.BLOCKED_PROCESS]


def test_gpus_are_watched_from_the_moment_that_nothing_moves():
    node = Node()
    node.sees(replace(BUSY, gpu=GpuLook(90)))
    node.sees(replace(BUSY, gpu=GpuLook(2, 80.0)))
    tick = node.sees(replace(BUSY, gpu=GpuLook(None)))
    assert (tick.gpu_highest_percent, tick.gpu_unread_ticks, tick.power_lowest_watts, tick.ticks) == (2, 1, 80, 2)


def test_a_rate_far_under_the_usual_one_is_slow_and_never_becomes_the_usual_one():
    node, tokens = Node(), 0.0
    for _ in range(120):
        tokens += 3000
        node.sees(replace(BUSY, counters={"tokens": tokens}, completed=tokens / 3000))
    for _ in range(60):
        tokens += 100
        tick = node.sees(replace(BUSY, counters={"tokens": tokens}, completed=120.0))
    assert tick.slow_seconds > 1200
    assert tick.usual_per_hour == pytest.approx(120, rel=0.35)


def test_a_long_prefill_that_moves_only_a_gauge_or_only_the_prompt_is_not_slow():
    node, tokens, tick = Node(), 0.0, None
    for step in range(180):
        tokens += 3000 if step < 120 else 0
        kv = {"kv": step / 1000}
        tick = node.sees(replace(BUSY, counters={"tokens": tokens}, gauges=kv, completed=min(step, 119.0)))
        assert tick.slow_seconds == 0
    node = Node()
    for step in range(180):
        counters = {"decodes": min(step, 120) * 300.0, "prompt_tokens": step * 400.0}
        assert node.sees(replace(BUSY, counters=counters)).slow_seconds == 0


def test_tokens_without_completions_run_the_clock_of_a_runaway():
    node, tokens = Node(), 0.0
    for _ in range(121):
        tokens += 100
        tick = node.sees(replace(BUSY, counters={"tokens": tokens}))
    assert (tick.no_completion_seconds, tick.no_progress_seconds) == (3600, 0)
