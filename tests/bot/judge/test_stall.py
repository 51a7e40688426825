"""Every verdict of docs/runners.md at its threshold and a second before it."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from bot.judge.stall import Ground, StallSettings, StallVerdict, judge
from wire.ticks import ApiState, CanaryOutcome, RunnerState, SignalClass, Tick, Witness, WitnessKind

IDLE = Tick("chat", "vllm", SignalClass.A, 5000.0, datetime(2026, 11, 30, tzinfo=UTC), 30.0, api=ApiState.OK)
HANGS = replace(IDLE, own_demand=12.0, canary_timeouts=3, ticks=34, gpu_highest_percent=100, waiting_seconds=5000.0)
QUIET_GPU = {"gpu_highest_percent": 3}
WITNESS = {"witness_ticks": 2, "witnesses": [Witness(WitnessKind.XID)]}
B, C, Q = ({"signal_class": which} for which in (SignalClass.B, SignalClass.C, SignalClass.Q))
LEARNED = {"gap_p99_seconds": 400.0, "gaps": 20}
NONE_LATE = {"canary_timeouts": 2}
MINUTE = 60.0

# the tick without its clock, the clock and its threshold, the verdict there, the verdict a second before
THRESHOLDS = {
    "A, slow": (HANGS, "no_progress_seconds", 17, "stalled", "suspect"),
    "A, fast by quiet GPUs": (replace(HANGS, **QUIET_GPU), "no_progress_seconds", 10, "stalled", "suspect"),
    "A, fast by a witness": (replace(HANGS, **WITNESS), "no_progress_seconds", 10, "stalled", "suspect"),
    "A, one witness tick is not enough": (
        replace(HANGS, witness_ticks=1),
        "no_progress_seconds",
        17,
        "stalled",
        "suspect",
    ),
    "A, GPUs at 4 %": (replace(HANGS, gpu_highest_percent=4), "no_progress_seconds", 17, "stalled", "suspect"),
    "A, GPUs unknown": (replace(HANGS, gpu_highest_percent=None), "no_progress_seconds", 17, "stalled", "suspect"),
    "A, GPUs mostly unread": (
        replace(HANGS, **QUIET_GPU, gpu_unread_ticks=12),
        "no_progress_seconds",
        17,
        "stalled",
        "suspect",
    ),
    "B, slow": (replace(HANGS, **B), "no_progress_seconds", 20, "stalled", "suspect"),
    "B, fast": (replace(HANGS, **B, **QUIET_GPU), "no_progress_seconds", 10, "stalled", "suspect"),
    "C with quiet GPUs": (replace(HANGS, **C, **QUIET_GPU), "no_progress_seconds", 20, "stalled", "suspect"),
    "C with busy GPUs": (replace(HANGS, **C), "no_progress_seconds", 30, "uncertain", "suspect"),
    "A, canaries busy": (replace(HANGS, **NONE_LATE), "no_progress_seconds", 26, "uncertain", "suspect"),
    "Q by its own gaps": (replace(HANGS, **Q, **LEARNED, api=None), "no_progress_seconds", 20, "stalled", "suspect"),
    "Q with short gaps": (
        replace(HANGS, **Q, **{**LEARNED, "gap_p99_seconds": 30.0}),
        "no_progress_seconds",
        15,
        "stalled",
        "suspect",
    ),
    "Q with long gaps": (
        replace(HANGS, **Q, **{**LEARNED, "gap_p99_seconds": 3000.0}),
        "no_progress_seconds",
        26,
        "stalled",
        "suspect",
    ),
    "Q that has not learned": (
        replace(HANGS, **Q, **{**LEARNED, "gaps": 19}),
        "no_progress_seconds",
        26,
        "uncertain",
        "suspect",
    ),
    "API dead": (replace(IDLE, api=ApiState.TIMEOUT), "api_dead_seconds", 5, "down", "idle"),
    "process gone": (replace(IDLE, process_gone_ticks=2), "process_gone_seconds", 1, "down", "idle"),
    "errors": (
        replace(IDLE, canary_errors=3, no_progress_seconds=99.0, canary=CanaryOutcome.ERROR),
        "error_seconds",
        5,
        "erroring",
        "suspect",
    ),
    "loading": (replace(IDLE, state=RunnerState.LOADING), "loading_seconds", 20, "load_stuck", "loading"),
    "unreadable": (IDLE, "unreadable_seconds", 10, "blind", "idle"),
    "our own mistake": (replace(IDLE, canary=CanaryOutcome.CONFIG), "config_error_seconds", 10, "blind", "idle"),
    "paused with work": (replace(IDLE, state=RunnerState.PAUSED), "paused_seconds", 30, "work_stuck", "paused"),
    "work that is stuck": (
        replace(IDLE, demand=3.0, canary_successes=2, waiting_seconds=1.0),
        "unserved_seconds",
        20,
        "work_stuck",
        "working",
    ),
    "runaway": (
        replace(IDLE, progress={"tokens": 5.0}, has_moved=True),
        "no_completion_seconds",
        60,
        "runaway",
        "working",
    ),
    "slow": (replace(IDLE, has_moved=True), "slow_seconds", 20, "degraded", "working"),
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_verdict_begins_at_its_threshold_and_not_a_second_before(name):
    tick, clock, minutes, verdict, before = THRESHOLDS[name]
    assert judge(replace(tick, **{clock: minutes * MINUTE})).verdict == verdict
    assert judge(replace(tick, **{clock: minutes * MINUTE - 1})).verdict == before


LONG = replace(HANGS, no_progress_seconds=99 * MINUTE)
NO_STALL = {
    "the API is dead": replace(LONG, api=ApiState.TIMEOUT),
    "two canaries failed": replace(LONG, canary_timeouts=2),
    "a canary was good": replace(LONG, canary_timeouts=0, no_progress_seconds=0.0),
    "a witness and nothing else": replace(IDLE, **WITNESS),
    "quiet GPUs and nothing else": replace(IDLE, **QUIET_GPU, ticks=5),
}


@pytest.mark.parametrize("name", NO_STALL)
def test_it_is_not_stalled_where(name):
    assert judge(NO_STALL[name]).verdict is not StallVerdict.STALLED


def test_work_is_not_stuck_by_the_runners_own_word_or_while_canaries_fail():
    stuck = replace(IDLE, demand=3.0, canary_successes=2, unserved_seconds=30 * MINUTE)
    assert judge(stuck).verdict is StallVerdict.WORK_STUCK
    assert judge(replace(stuck, demand=None, own_demand=3.0)).verdict is not StallVerdict.WORK_STUCK
    assert judge(replace(stuck, canary_timeouts=1)).verdict is not StallVerdict.WORK_STUCK
    assert judge(replace(stuck, canary_successes=0)).verdict is not StallVerdict.WORK_STUCK


def test_a_load_that_cannot_be_measured_is_not_called_stuck():
    assert judge(replace(IDLE, state=RunnerState.LOADING, loading_seconds=None)).verdict is StallVerdict.LOADING


def test_a_verdict_comes_with_the_numbers_that_it_rests_on():
    judgement = judge(replace(LONG, **WITNESS))
    told = {reason.ground: reason.value for reason in judgement.reasons}
    assert told == {Ground.NO_PROGRESS: 5940, Ground.WAITING: 12, Ground.CANARY_TIMEOUTS: 3, Ground.WITNESSES: 2}
    assert judgement.is_fast


def test_thresholds_are_settings():
    assert judge(replace(HANGS, no_progress_seconds=700.0)).verdict is StallVerdict.SUSPECT
    sooner = StallSettings(stalled_slow_a_seconds=700.0)
    assert judge(replace(HANGS, no_progress_seconds=700.0), sooner).verdict is StallVerdict.STALLED


def test_words_of_a_newer_node_confirm_nothing():
    unknown = replace(LONG, signal_class=SignalClass.UNKNOWN)
    assert judge(unknown).verdict is StallVerdict.UNCERTAIN
    assert judge(replace(LONG, api=ApiState.UNKNOWN)).verdict is StallVerdict.SUSPECT
