"""The guard against the same rules written a second time: random orders and facts, and every two differences."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.remedies.facts import Act, Allowed, Asked, Facts, ProcessesNow
from agent.remedies.guard import at_receipt, before_acting
from tests.agent.build_facts import (
    ALLOWED,
    AUTO,
    CALM,
    FAILED,
    LIMIT,
    NEW,
    POLICY,
    POLICY_REBOOT,
    REBOOT,
    REBOOTED,
    RESTARTED,
    WITHOUT_STALL,
    answered,
    facts_now,
    tick_now,
)
from tests.build import OTHER_BOOT
from tests.build_orders import ISSUED, PROCESSES, order
from wire.orders import Action, Order, OrderVerdict
from wire.remedies import AutoRemedy
from wire.ticks import ApiState, CanaryOutcome

SEEN = {
    "node": ["gpu-01", "gpu-02"],
    "boot_id": [facts_now().boot_id, OTHER_BOOT],
    "spool_epoch": [facts_now().spool_epoch, "f" * 32],
    "challenge": [facts_now().challenge, "0" * 32],
    "highest_fence": [7, 0, 8],
    "now": [CALM, ISSUED - timedelta(minutes=5), order().expires + timedelta(seconds=1)],
    "waited_seconds": [0.0, 500.0],
    "seen": [frozenset(), frozenset({order().order_id})],
    "under_way": ["", "x"],
    "allowed": [ALLOWED, AUTO, Allowed(), replace(ALLOWED, reboot=None), replace(ALLOWED, restarts={"b": LIMIT})],
    "acts": [(), (RESTARTED,), (RESTARTED, REBOOTED), (Act(Action.UNKNOWN, "", 9.0, True),), (RESTARTED, RESTARTED)],
    "processes": [
        ProcessesNow(frozenset(PROCESSES)),
        ProcessesNow(),
        ProcessesNow(frozenset([NEW])),
        ProcessesNow(hidden="?"),
    ],
    "tick": [
        tick_now(),
        None,
        tick_now(pid=5000),
        tick_now(completed=821.0),
        tick_now(has_moved=True),
        tick_now(minutes=1.0),
        tick_now(epoch="other"),
        tick_now(api=ApiState.TIMEOUT),
    ],
    "sharing": [(), ("embed",)],
    "asked": [FAILED, None, answered(CanaryOutcome.OK), answered(CanaryOutcome.BUSY), Asked(unsent="?")],
}
KINDS = [order(), REBOOT, WITHOUT_STALL, POLICY, POLICY_REBOOT, order(verdict=OrderVerdict.ERRORING)]
ORDERS = st.sampled_from(KINDS)
GOOD = {"allowed": AUTO, "acts": (RESTARTED,), "tick": tick_now(), "asked": FAILED}
NAMES = sorted(SEEN)
ANY_FACTS = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in SEEN.items()})


def what_differs(order: Order, facts: Facts) -> list[str]:
    """Written a second time, in other words than the guard's: everything that must hold, and does not."""
    by_stall, is_policy = order.verdict is not OrderVerdict.NONE, bool(order.policy)
    limits = facts.allowed.restarts if order.action is Action.RESTART_RUNNER else {"chat": facts.allowed.reboot}
    same = [act for act in facts.acts if act.action in (order.action, Action.UNKNOWN)]
    tick, said, asked = facts.tick, order.runner, facts.asked
    wanted = [CanaryOutcome.ERROR] + [CanaryOutcome.TIMEOUT] * (order.verdict is OrderVerdict.STALLED)
    must_hold = {
        "node": order.node == facts.node,
        "boot": order.boot_id == facts.boot_id,
        "epoch": order.spool_epoch == facts.spool_epoch,
        "time": facts.now < order.expires
        and facts.waited_seconds < 178
        and facts.now >= ISSUED - timedelta(seconds=30),
        "new": order.order_id not in facts.seen,
        "challenge": order.challenge == facts.challenge,
        "fence": order.fence >= facts.highest_fence,
        "alone": not facts.under_way,
        "enabled": limits.get("chat") is not None,
        "rested": all(act.seconds_ago >= 3600 for act in same) and len(same) < 2,
        "processes": not facts.processes.hidden and facts.processes.known <= set(order.processes),
        "process": order.action is Action.REBOOT_NODE
        or (tick is not None and said is not None and tick.pid == said.pid),
        "own": not facts.sharing,
        "life": not by_stall or (tick is not None and said is not None and tick.epoch == said.epoch),
        "still": not by_stall or (tick is not None and tick.completed == 820.0 and not tick.has_moved),
        "clock": not by_stall or (tick is not None and tick.no_progress_seconds >= 1020.0),
        "canary": not by_stall or (asked is not None and asked.result is not None and asked.result.outcome in wanted),
        "policy": not is_policy or facts.allowed.auto_remedy is AutoRemedy.RESTART_THEN_REBOOT,
        "restart first": not (is_policy and order.action is Action.REBOOT_NODE) or RESTARTED in facts.acts,
        "api": not is_policy or (tick is not None and tick.api is ApiState.OK),
    }
    return [name for name, holds in must_hold.items() if not holds]


def agrees(order: Order, values: dict[str, object]) -> None:
    now = facts_now(**values)
    now = replace(now, received_at=now.now)
    refusals = [refused for refused in (at_receipt(order, now), before_acting(order, now)) if refused is not None]
    assert bool(refusals) == bool(what_differs(order, now)), (refusals, what_differs(order, now))
    assert all(refused.why for refused in refusals)


@given(ORDERS, ANY_FACTS)
def test_an_order_is_acted_upon_exactly_when_nothing_differs(order: Order, values: dict[str, object]) -> None:
    agrees(order, values)


@pytest.mark.parametrize("name", NAMES)
def test_one_single_difference_is_enough(name: str) -> None:
    """Each of them, from facts on which the order would be carried out: random ones hardly ever come so close."""
    for kind in KINDS:
        for value in SEEN[name]:
            agrees(kind, {**GOOD, name: value})


@pytest.mark.parametrize("one", NAMES)
def test_of_two_differences_none_makes_up_for_the_other(one: str) -> None:
    for other in NAMES:
        for kind in KINDS:
            for first in SEEN[one]:
                for second in SEEN[other]:
                    agrees(kind, {**GOOD, one: first, other: second})
