"""The guard: one table of everything that may differ from what an order says, and what is said then."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from agent.remedies.facts import Act, Allowed, Asked, Facts, ProcessesNow
from agent.remedies.guard import at_receipt, before_acting, is_spent, read_order
from agent.remedies.refused import Refused
from tests.agent.build_facts import (
    ALLOWED,
    AUTO,
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
from tests.build_orders import ISSUED, KEY, OTHER_KEY, PROCESSES, facts, order
from wire.orders import SHARED_PROCESS, AcceptedProcess, Action, Order, OrderVerdict, sign_order
from wire.remedies import AutoRemedy, Refusal
from wire.ticks import ApiState, CanaryOutcome, RunnerState, SignalClass, Witness, WitnessKind

PUBLIC = bytes(KEY.verify_key)
QUEUE = order(runner=facts(signal_class=SignalClass.Q))
LOADING = order(verdict=OrderVerdict.LOAD_STUCK, runner=facts(load=5e9, no_progress_seconds=0.0))


def loading_now(**changes: object) -> Facts:
    tick = tick_now(state=RunnerState.LOADING, load=5e9, loading_seconds=1300.0, no_progress_seconds=0.0, **changes)
    return facts_now(tick=tick)


@pytest.mark.parametrize(
    ("given_order", "given_facts"),
    [
        (order(), facts_now()),
        (REBOOT, facts_now()),
        (order(accepted_blockers=[SHARED_PROCESS]), facts_now(sharing=("embed",))),
        (WITHOUT_STALL, facts_now(tick=None, asked=None)),
        (order(), facts_now(processes=ProcessesNow(frozenset(PROCESSES[:1])))),
        (replace(REBOOT, anything_may_run=True), facts_now(processes=ProcessesNow(hidden="NO_PERMISSION"))),
        (order(), facts_now(acts=(replace(RESTARTED, seconds_ago=3600.0),))),
        (order(), facts_now(acts=(replace(RESTARTED, runner="other", seconds_ago=5.0),))),
        (REBOOT, facts_now(acts=(replace(RESTARTED, seconds_ago=5.0),))),
        (order(), facts_now(acts=(REBOOTED,))),
        (order(), facts_now(now=ISSUED - timedelta(seconds=29))),
        (order(), facts_now(highest_fence=0)),
        (order(), facts_now(asked=answered(CanaryOutcome.ERROR))),
        (order(verdict=OrderVerdict.UNCERTAIN), facts_now(asked=answered(CanaryOutcome.BUSY))),
        (order(verdict=OrderVerdict.UNCERTAIN), facts_now(asked=Asked(is_off=True))),
        (order(verdict=OrderVerdict.ERRORING), facts_now(asked=answered(CanaryOutcome.ERROR))),
        (QUEUE, facts_now(tick=tick_now(signal_class=SignalClass.Q, demand=3.0), asked=None)),
        (QUEUE, facts_now(tick=tick_now(signal_class=SignalClass.Q, demand=None, own_demand=1.0), asked=None)),
        (LOADING, loading_now()),
        (POLICY, facts_now(allowed=AUTO)),
        (POLICY, facts_now(allowed=replace(AUTO, auto_remedy=AutoRemedy.RESTART))),
        (POLICY_REBOOT, facts_now(allowed=AUTO, acts=(RESTARTED,))),
        (
            order(runner=facts(completed=None)),
            facts_now(tick=tick_now(progress={}, witnesses=[Witness(WitnessKind.LOOP_HANGS)])),
        ),
    ],
)
def test_an_order_of_which_everything_is_still_true_is_taken(given_order: Order, given_facts: Facts) -> None:
    assert at_receipt(given_order, given_facts) is None
    assert before_acting(given_order, given_facts) is None


ATTACKS = {
    "another node's order": (order(), {"node": "gpu-02"}, Refusal.OTHER_NODE, "gpu-01"),
    "another boot": (order(), {"boot_id": OTHER_BOOT}, Refusal.OTHER_BOOT, "booted since"),
    "another spool epoch": (order(), {"spool_epoch": "f" * 32}, Refusal.OTHER_SPOOL_EPOCH, "two agents"),
    "replayed": (order(), {"seen": frozenset({order().order_id})}, Refusal.REPLAYED, "never taken twice"),
    "stale challenge": (order(), {"challenge": "0" * 32}, Refusal.STALE_CHALLENGE, "challenge"),
    "lower fence": (order(), {"highest_fence": 8}, Refusal.LOWER_FENCE, "number 7, seen before 8"),
    "clock skew": (order(), {"now": ISSUED - timedelta(minutes=5)}, Refusal.FROM_THE_FUTURE, "5 min ahead"),
}
DIFFERENT = {
    "expired by the wall clock": (order(), {"now": order().expires}, Refusal.EXPIRED, "03:08:00"),
    "expired by the time since boot": (order(), {"waited_seconds": 178.0}, Refusal.EXPIRED, "0 s before now"),
    "not enabled": (order(), {"allowed": Allowed()}, Refusal.NOT_ENABLED, "restart_runner.chat"),
    "reboot not enabled": (REBOOT, {"allowed": replace(ALLOWED, reboot=None)}, Refusal.NOT_ENABLED, "reboot_node"),
    "another order under way": (order(), {"under_way": "x"}, Refusal.UNDER_WAY, "another order"),
    "too soon": (order(), {"acts": (replace(RESTARTED, seconds_ago=60.0),)}, Refusal.TOO_SOON, "60 s ago, and 60 min"),
    "rebooted lately": (WITHOUT_STALL, {"acts": (REBOOTED,)}, Refusal.TOO_SOON, "100 s ago"),
    "rebooted lately for another runner": (
        REBOOT,
        {"acts": (replace(REBOOTED, runner="other", is_this_boot=False),)},
        Refusal.TOO_SOON,
        "100 s ago",
    ),
    "budget": (order(), {"acts": (RESTARTED, RESTARTED)}, Refusal.BUDGET_SPENT, "inspect the hardware"),
    "journal was lost": (
        REBOOT,
        {"acts": (Act(Action.UNKNOWN, "", 9.0, True),)},
        Refusal.TOO_SOON,
        "9 s ago",
    ),
    "its process serves another one": (order(), {"sharing": ("embed",)}, Refusal.NOT_CONFIRMED, "also serves embed"),
    "reboot, its process serves another one": (REBOOT, {"sharing": ("embed",)}, Refusal.NOT_CONFIRMED, "embed"),
    "process set grown": (
        order(),
        {"processes": ProcessesNow(frozenset([*PROCESSES, NEW]))},
        Refusal.PROCESSES_CHANGED,
        "5000",
    ),
    "pid reused": (
        order(),
        {"processes": ProcessesNow(frozenset([AcceptedProcess(4321, "78")]))},
        Refusal.PROCESSES_CHANGED,
        "4321",
    ),
    "processes unreadable": (
        order(),
        {"processes": ProcessesNow(hidden="NO_PERMISSION")},
        Refusal.PROCESSES_UNREADABLE,
        "NO_PERMISSION",
    ),
    "another runner pid": (
        order(),
        {"tick": tick_now(pid=5000, process_started="99")},
        Refusal.OTHER_PROCESS,
        "5000, approved was 4321",
    ),
    "the runner's pid reused": (order(), {"tick": tick_now(process_started="78")}, Refusal.OTHER_PROCESS, "another"),
    "the runner's process gone": (order(), {"tick": tick_now(pid=None)}, Refusal.OTHER_PROCESS, "none"),
    "a new life of the runner": (
        REBOOT,
        {"tick": tick_now(epoch="b0000000/5000-99")},
        Refusal.OTHER_PROCESS,
        "started anew",
    ),
    "runner not read": (order(), {"tick": None}, Refusal.NOT_CONFIRMED, "cannot be read"),
    "another runner's tick": (REBOOT, {"tick": tick_now(runner="other")}, Refusal.NOT_CONFIRMED, "cannot be read"),
    "completed meanwhile": (order(), {"tick": tick_now(completed=821.0)}, Refusal.RECOVERED, "completed 820 -> 821"),
    "a token meanwhile": (
        order(),
        {"tick": tick_now(progress={"generation_tokens": 412001.0, "kv_cache": 0.25})},
        Refusal.RECOVERED,
        "generation_tokens",
    ),
    "moves": (order(), {"tick": tick_now(has_moved=True)}, Refusal.RECOVERED, "work moves again"),
    "answered a canary of its own": (
        order(),
        {"tick": tick_now(minutes=3.0, canary=CanaryOutcome.OK, canary_seconds_ago=40.0)},
        Refusal.RECOVERED,
        "canary 40 s ago",
    ),
    "moved and came to rest": (order(), {"tick": tick_now(minutes=3.0)}, Refusal.NOT_CONFIRMED, "180 s, it was 1020"),
    "progress unreadable": (order(), {"tick": tick_now(progress={})}, Refusal.NOT_CONFIRMED, "generation_tokens"),
    "read in another way": (
        order(),
        {"tick": tick_now(signal_class=SignalClass.Q)},
        Refusal.NOT_CONFIRMED,
        "another way",
    ),
    "nobody waits": (
        QUEUE,
        {"tick": tick_now(signal_class=SignalClass.Q, demand=0.0)},
        Refusal.RECOVERED,
        "nobody waits",
    ),
    "demand unreadable": (
        QUEUE,
        {"tick": tick_now(signal_class=SignalClass.Q, demand=None)},
        Refusal.NOT_CONFIRMED,
        "anybody waits",
    ),
    "loaded": (LOADING, {"tick": tick_now(state=RunnerState.READY)}, Refusal.RECOVERED, "it is ready"),
    "loading goes on": (
        LOADING,
        {"tick": tick_now(state=RunnerState.LOADING, load=6e9)},
        Refusal.RECOVERED,
        "goes on",
    ),
    "loading unreadable": (
        LOADING,
        {"tick": tick_now(state=RunnerState.LOADING, load=None)},
        Refusal.NOT_CONFIRMED,
        "loading moves",
    ),
    "policy here off": (POLICY, {}, Refusal.POLICY_NOT_ALLOWED, "auto_remedy: off"),
    "policy here of a word that is not known": (
        POLICY,
        {"allowed": replace(ALLOWED, auto_remedy=AutoRemedy.UNKNOWN)},
        Refusal.POLICY_NOT_ALLOWED,
        "auto_remedy: unknown",
    ),
    "policy here restarts only": (
        POLICY_REBOOT,
        {"allowed": replace(AUTO, auto_remedy=AutoRemedy.RESTART), "acts": (RESTARTED,)},
        Refusal.POLICY_NOT_ALLOWED,
        "auto_remedy: restart",
    ),
    "policy reboots first": (POLICY_REBOOT, {"allowed": AUTO}, Refusal.POLICY_NOT_ALLOWED, "restart comes first"),
    "policy's restart was in another boot": (
        POLICY_REBOOT,
        {"allowed": AUTO, "acts": (replace(RESTARTED, is_this_boot=False),)},
        Refusal.POLICY_NOT_ALLOWED,
        "restart comes first",
    ),
    "policy without a confirmed stall": (
        replace(POLICY, verdict=OrderVerdict.UNCERTAIN),
        {"allowed": AUTO},
        Refusal.POLICY_NOT_ALLOWED,
        "confirmed stall",
    ),
    "policy without a canary": (
        replace(POLICY, runner=facts(signal_class=SignalClass.Q)),
        {"allowed": AUTO, "tick": tick_now(signal_class=SignalClass.Q)},
        Refusal.POLICY_NOT_ALLOWED,
        "can be asked",
    ),
    "policy accepts what nobody saw": (
        replace(POLICY, anything_may_run=True),
        {"allowed": AUTO},
        Refusal.POLICY_NOT_ALLOWED,
        "no blocker",
    ),
    "policy while the API is dead": (
        POLICY,
        {"allowed": AUTO, "tick": tick_now(api=ApiState.TIMEOUT)},
        Refusal.POLICY_NOT_ALLOWED,
        "API does not answer",
    ),
}
RECOVERED = {
    "canary answered": (order(), {"asked": answered(CanaryOutcome.OK)}, Refusal.RECOVERED, "answered a canary"),
    "reboot, canary answered": (REBOOT, {"asked": answered(CanaryOutcome.OK)}, Refusal.RECOVERED, "answered"),
    "canary busy": (order(), {"asked": answered(CanaryOutcome.BUSY)}, Refusal.NOT_CONFIRMED, "ended as busy"),
    "canary refused": (order(), {"asked": answered(CanaryOutcome.CONFIG)}, Refusal.NOT_CONFIRMED, "ended as config"),
    "canary of a new kind": (order(), {"asked": answered(CanaryOutcome.UNKNOWN)}, Refusal.NOT_CONFIRMED, "unknown"),
    "canary not sent": (order(), {"asked": Asked(unsent="no model")}, Refusal.NOT_CONFIRMED, "no model"),
    "canary never asked": (order(), {"asked": None}, Refusal.NOT_CONFIRMED, "no canary"),
    "canary off": (order(), {"asked": Asked(is_off=True)}, Refusal.NOT_CONFIRMED, "no canary"),
    "errors became time-outs": (
        order(verdict=OrderVerdict.ERRORING),
        {"asked": answered(CanaryOutcome.TIMEOUT)},
        Refusal.NOT_CONFIRMED,
        "ended as timeout",
    ),
    "uncertain, answered": (
        order(verdict=OrderVerdict.UNCERTAIN),
        {"asked": answered(CanaryOutcome.OK)},
        Refusal.RECOVERED,
        "answered",
    ),
    "uncertain, not sent": (
        order(verdict=OrderVerdict.UNCERTAIN),
        {"asked": Asked(unsent="no model")},
        Refusal.NOT_CONFIRMED,
        "no model",
    ),
}


@pytest.mark.parametrize("name", [*ATTACKS, *DIFFERENT])
def test_at_receipt_whatever_differs_refuses_and_says_why(name: str) -> None:
    given_order, changes, code, words = {**ATTACKS, **DIFFERENT}[name]
    refused = at_receipt(given_order, facts_now(**changes))
    assert refused is not None
    assert refused.code is code
    assert words in refused.why


@pytest.mark.parametrize("name", [*DIFFERENT, *RECOVERED])
def test_right_before_acting_whatever_differs_refuses_and_says_why(name: str) -> None:
    given_order, changes, code, words = {**DIFFERENT, **RECOVERED}[name]
    refused = before_acting(given_order, facts_now(**changes))
    assert refused is not None
    assert refused.code is code
    assert words in refused.why


@pytest.mark.parametrize("changes", [{"boot_id": OTHER_BOOT}, {"spool_epoch": "f" * 32}])
def test_boot_and_epoch_are_asked_again_before_acting(changes: dict[str, object]) -> None:
    assert before_acting(order(), facts_now(**changes)) is not None


def test_the_order_itself_is_under_way_and_seen_and_its_challenge_is_spent_when_it_is_asked_again() -> None:
    own = order().order_id
    assert before_acting(order(), facts_now(under_way=own, seen=frozenset({own}), challenge="new")) is None


def test_only_an_order_with_the_challenge_of_now_spends_it() -> None:
    assert is_spent(order(), facts_now())
    assert not is_spent(order(challenge="0" * 32), facts_now())
    assert not is_spent(order(), facts_now(node="gpu-02"))
    assert not is_spent(order(), facts_now(seen=frozenset({order().order_id})))


@pytest.mark.parametrize(
    ("message", "keys", "code"),
    [
        (sign_order(KEY, order()), [], Refusal.NO_KEY),
        (sign_order(OTHER_KEY, order()), [PUBLIC], Refusal.BAD_SIGNATURE),
        (sign_order(KEY, order())[:-1], [PUBLIC], Refusal.BAD_SIGNATURE),
        (sign_order(KEY, order()) + b" ", [PUBLIC], Refusal.BAD_SIGNATURE),
        (b"", [PUBLIC], Refusal.BAD_SIGNATURE),
        (b"\0" * 1_000_000, [PUBLIC], Refusal.BAD_SIGNATURE),
    ],
)
def test_what_the_bot_did_not_sign_is_not_even_parsed(message: bytes, keys: list[bytes], code: Refusal) -> None:
    refused = read_order(message, keys)
    assert isinstance(refused, Refused)
    assert refused.code is code


@pytest.mark.parametrize(("body", "code"), [(b'{"version":2}', "unknown_version"), (b"{}", "malformed")])
def test_what_the_bot_signed_and_is_not_known_here_is_refused(body: bytes, code: str) -> None:
    refused = read_order(KEY.sign(b"gpuoncall-order-v1\0" + body).signature + body, [PUBLIC])
    assert isinstance(refused, Refused)
    assert refused.code == code


def test_a_signed_order_is_read() -> None:
    assert read_order(sign_order(KEY, order()), [PUBLIC]) == order()
