"""When a canary is sent, and when none is."""

import pytest
from msgspec.structs import replace

from agent.progress import CanaryPlan, Why
from agent.runner_reading import Api
from tests.agent.progress_node import BUSY, IDLE, LATE, MISSING, PLAN, Node, stalled
from wire.ticks import ApiState, RunnerState


def test_a_canary_goes_out_after_two_minutes_without_movement_and_then_every_two_minutes():
    node = stalled(1.5)
    assert node.due is None
    node.sees(BUSY)
    assert node.due is Why.SUSPICION
    node.sees(replace(BUSY, canary_outstanding_seconds=30.0))
    assert node.due is None, "one at most is on its way"
    node.sees(replace(BUSY, canary=replace(LATE, sent_seconds_ago=90.0)))
    assert node.due is None
    node.sees(BUSY)
    assert node.due is Why.SUSPICION


def test_while_nobody_is_known_to_wait_a_canary_goes_out_after_five_quiet_minutes():
    node = Node()
    node.sees(IDLE, 10)
    assert node.due is None
    node.sees(IDLE)
    assert node.due is Why.IDLE


NOT_WHILE_IDLE = {
    "an independent queue is empty": replace(IDLE, demand=0.0),
    "it would keep a model loaded": replace(IDLE, may_ask_when_idle=False),
    "it is paused": replace(IDLE, state=RunnerState.PAUSED),
    "it loads": replace(IDLE, state=RunnerState.LOADING),
    "no model is loaded": replace(IDLE, state=RunnerState.UNLOADED),
    "its API does not answer": replace(IDLE, api=Api(ApiState.TIMEOUT)),
}


@pytest.mark.parametrize("name", NOT_WHILE_IDLE)
def test_no_canary_goes_out_while_idle_where(name):
    node = Node()
    for _ in range(100):
        node.sees(NOT_WHILE_IDLE[name])
        assert node.due is None


def test_a_preset_that_may_load_what_is_asked_for_gets_none_while_idle():
    node = Node(replace(PLAN, canary=CanaryPlan(False)))
    node.sees(IDLE, 100)
    assert node.due is None
    node.sees(BUSY, 10)
    assert node.due is Why.SUSPICION


def test_no_canary_goes_out_while_work_moves_or_may_move_unseen():
    node, tokens = Node(), 0.0
    for number in range(100):
        tokens += 1
        seen = replace(BUSY, counters={"tokens": tokens}) if number % 4 else replace(MISSING, own_demand=2.0)
        node.sees(seen)
        assert node.due is None


def test_a_page_that_stays_away_for_six_minutes_may_hang_with_the_runner_so_it_is_asked():
    node = Node()
    node.sees(BUSY, 2)
    node.sees(replace(MISSING, own_demand=None), 11)
    assert node.due is None
    node.sees(replace(MISSING, own_demand=None), 4)
    assert node.due is Why.SUSPICION


def test_without_a_canary_none_is_sent():
    node = stalled(60, replace(PLAN, canary=None))
    assert node.due is None
