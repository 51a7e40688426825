"""Two ticks that agree, and what ends a verdict."""

import pytest
from msgspec.structs import replace

from bot.judge.recovery import Ending
from bot.judge.runner import Opened, Pending, conclude
from bot.judge.stall import StallVerdict
from bot.judge.verdict import Presence
from tests.build_ticks import hung, tick
from wire.ticks import ApiState, CanaryOutcome, ProcessState, RunnerState


def opened(verdict: StallVerdict, minutes_ago: float = 20):
    return Opened(verdict, tick(at_minutes=-minutes_ago).taken_at)


def test_a_stall_is_confirmed_by_the_second_tick_in_which_its_clock_runs():
    first, second = hung(at_minutes=0, minutes=17), hung(at_minutes=0.5, minutes=17.5)
    assert conclude(None, first, None).presence is Presence.UNKNOWN
    assert conclude(None, first, None).pending is Pending.FIRST_TICK
    assert conclude(first, second, None).presence is Presence.PRESENT


@pytest.mark.parametrize(
    ("before", "why"),
    [
        pytest.param(tick(at_minutes=-0.5), "the clock stood at nothing", id="no clock"),
        pytest.param(hung(at_minutes=-0.5, minutes=3), "it jumped by 14 minutes", id="jumped"),
        pytest.param(hung(at_minutes=-0.5, minutes=40), "it was longer before: another wait", id="longer before"),
        pytest.param(hung(at_minutes=-15, minutes=2), "the ticks are too far apart", id="far apart"),
        pytest.param(hung(at_minutes=600, minutes=16.5), "it was taken in another boot", id="another boot"),
    ],
)
def test_one_tick_that_does_not_fit_the_one_before_confirms_nothing(before, why):
    assert conclude(before, hung(at_minutes=0, minutes=17), None).presence is Presence.UNKNOWN, why


def test_a_heartbeat_that_is_lost_costs_no_second_confirmation():
    assert conclude(hung(minutes=15), hung(at_minutes=2, minutes=17), None).presence is Presence.PRESENT


def test_what_is_missing_may_stop_the_clock_between_two_ticks():
    assert conclude(hung(minutes=17), hung(at_minutes=0.5, minutes=17), None).presence is Presence.PRESENT


# --- what is said already -------------------------------------------------------------------------------------------

MOVED = tick(has_moved=True)
QUIET = tick(api=ApiState.OK, last_moved_seconds=100.0)
ALL = [
    StallVerdict.STALLED,
    StallVerdict.UNCERTAIN,
    StallVerdict.ERRORING,
    StallVerdict.LOAD_STUCK,
    StallVerdict.DOWN,
    StallVerdict.WORK_STUCK,
]


@pytest.mark.parametrize("verdict", ALL)
def test_work_that_moves_ends_it(verdict):
    assert conclude(None, MOVED, opened(verdict)).ending is Ending.MOVED


@pytest.mark.parametrize("verdict", [StallVerdict.STALLED, StallVerdict.UNCERTAIN, StallVerdict.ERRORING])
@pytest.mark.parametrize(
    ("now", "ending"),
    [
        pytest.param(replace(QUIET, canary=CanaryOutcome.OK, canary_seconds_ago=5.0), Ending.CANARY_OK, id="canary"),
        pytest.param(replace(QUIET, demand=0.0), Ending.NOBODY_WAITS, id="empty queue"),
        pytest.param(replace(QUIET, own_demand=0.0, last_moved_seconds=601.0), Ending.NOBODY_WAITS, id="settled"),
        pytest.param(replace(QUIET, state=RunnerState.PAUSED), Ending.RESTS, id="paused"),
        pytest.param(replace(QUIET, state=RunnerState.UNLOADED), Ending.RESTS, id="unloaded"),
    ],
)
def test_a_stall_ends_with_evidence_of_its_own(verdict, now, ending):
    concluded = conclude(None, now, opened(verdict))
    assert (concluded.presence, concluded.ending) == (Presence.ABSENT, ending)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        pytest.param(tick(), "the node's agent was away, and every clock begins anew", id="cut"),
        pytest.param(replace(QUIET, own_demand=0.0), "what hangs says itself that nobody waits", id="own word"),
        pytest.param(
            replace(QUIET, canary=CanaryOutcome.OK, canary_seconds_ago=3000.0), "from before", id="old canary"
        ),
        pytest.param(replace(QUIET, state=RunnerState.LOADING), "it was started again, and loads", id="loading"),
        pytest.param(hung(minutes=3), "something waits again and nothing moves", id="suspect"),
        pytest.param(hung(minutes=19, api=ApiState.TIMEOUT), "its API did not answer once", id="no answer"),
        pytest.param(tick(missing=["metrics: refused"], unreadable_seconds=30.0), "it cannot be read", id="unread"),
    ],
)
def test_a_stall_is_not_over_because_a_clock_stands_at_nothing(now, why):
    concluded = conclude(hung(minutes=20), now, opened(StallVerdict.STALLED))
    assert concluded.presence is Presence.UNKNOWN, why


def test_a_milder_verdict_does_not_take_the_place_of_a_stall():
    blind = tick(at_minutes=0.5, unreadable_seconds=700.0)
    before = tick(unreadable_seconds=670.0)
    assert conclude(before, blind, None).presence is Presence.PRESENT
    assert conclude(before, blind, opened(StallVerdict.STALLED)).presence is Presence.UNKNOWN


def test_a_worse_verdict_does():
    before, now = (
        hung(at_minutes=minute, minutes=30, api=ApiState.REFUSED, api_dead_seconds=300.0 + 60 * minute)
        for minute in (0, 0.5)
    )
    concluded = conclude(before, now, opened(StallVerdict.STALLED))
    assert (concluded.presence, concluded.judgement.verdict) == (Presence.PRESENT, StallVerdict.DOWN)


def test_a_dead_api_that_answers_again_is_over_unless_nothing_moves_behind_it():
    assert conclude(None, QUIET, opened(StallVerdict.DOWN)).ending is Ending.ANSWERS
    assert conclude(None, replace(QUIET, api=ApiState.REFUSED), opened(StallVerdict.DOWN)).ending is None
    assert conclude(None, hung(minutes=5), opened(StallVerdict.DOWN)).ending is None


def test_a_process_without_an_api_is_back_when_it_lives():
    here, gone = (tick(process=state) for state in (ProcessState.ALIVE, ProcessState.GONE))
    assert conclude(None, here, opened(StallVerdict.DOWN)).ending is Ending.ANSWERS
    assert conclude(None, gone, opened(StallVerdict.DOWN)).ending is None


def test_blindness_ends_when_two_ticks_in_a_row_could_be_read():
    seen = tick(at_minutes=0.5, demand=0.0)
    assert conclude(None, seen, opened(StallVerdict.BLIND)).ending is None
    assert conclude(tick(unreadable_seconds=700.0), seen, opened(StallVerdict.BLIND)).ending is None
    assert conclude(tick(), seen, opened(StallVerdict.BLIND)).ending is Ending.READABLE


def test_a_runaway_ends_when_something_is_completed_in_the_same_life():
    before, now = tick(completed=5.0, epoch="a"), tick(at_minutes=0.5, completed=6.0, epoch="a", has_moved=True)
    assert conclude(before, now, opened(StallVerdict.RUNAWAY)).ending is Ending.COMPLETED
    assert conclude(before, replace(now, epoch="b"), opened(StallVerdict.RUNAWAY)).ending is None
    assert conclude(before, replace(now, completed=5.0), opened(StallVerdict.RUNAWAY)).ending is None


def test_slowness_ends_after_two_ticks_at_the_usual_rate():
    fast = tick(at_minutes=0.5, has_moved=True)
    assert conclude(tick(slow_seconds=1300.0), fast, opened(StallVerdict.DEGRADED)).ending is None
    assert conclude(tick(has_moved=True), fast, opened(StallVerdict.DEGRADED)).ending is Ending.AS_FAST
