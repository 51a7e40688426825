"""Random stories of requests, presses, crashes, lost and repeated messages: whatever happens, nothing is done twice."""

import os

import pytest

from tests.flow.remedy_world import World

RUNS = 10_000 if "FUZZ_RUNS" in os.environ else 400  # `make fuzz` sets it
TURNS = 400


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_an_order_is_carried_out_once_with_an_approval_in_its_time_and_only_while_what_was_said_is_true():
    done = policies = unanswered = 0
    for seed in range(RUNS):
        world = World(seed)
        try:
            for _ in range(TURNS):
                world.turn()  # asserts, whenever something is done, that it may be done
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        done += len(world.node.done)
        policies += sum(bool(order.policy) for order, _ in world.node.done)
        unanswered += len(world.told) - len(world.node.done)
    print(f"{RUNS} stories: {done} remedies, {policies} of them by a policy, and {unanswered} orders that came to none")
    assert done > RUNS / 3  # the stories do get there
    assert policies > 0
    assert unanswered > 0
