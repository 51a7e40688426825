"""May this order be carried out, here and now? Signature first, then one check for each way in which it may not."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from agent.remedies import still
from agent.remedies.facts import Facts, Limit
from agent.remedies.refused import Refused
from wire.orders import (
    SHARED_PROCESS,
    Action,
    BadOrderError,
    Order,
    OrderVerdict,
    UnknownVersionError,
    decode_order,
    opened,
)
from wire.remedies import AutoRemedy, Refusal
from wire.ticks import ApiState, SignalClass

MOST_SKEW = timedelta(seconds=30)  # the bot's clock may be so much ahead of this node's
DAY_SECONDS = 86400.0
_SHOWN = 4

Check = Callable[[Order, Facts], Refused | None]


def read_order(message: bytes, keys: Sequence[bytes]) -> Order | Refused:
    """The order in the bytes that came, if one of the keys signed exactly these; nothing is parsed before that."""
    if not keys:
        return Refused(Refusal.NO_KEY, "this node has no key of a bot: gpu-oncall-agent join brings it")
    body = opened(keys, message)
    if body is None:
        return Refused(Refusal.BAD_SIGNATURE, "it was not signed with the bot's key")
    try:
        return decode_order(body)
    except UnknownVersionError as error:
        return Refused(Refusal.UNKNOWN_VERSION, str(error))
    except BadOrderError as error:
        return Refused(Refusal.MALFORMED, str(error))


def at_receipt(order: Order, facts: Facts) -> Refused | None:
    """Everything but the canary, which takes its time."""
    return _first((*_ONCE, *_ALWAYS), order, facts)


def before_acting(order: Order, facts: Facts) -> Refused | None:
    """Once more what may have changed since, and what the canary said."""
    return _first((still.not_answered, *_ALWAYS, still.canary_fails), order, facts)


def at_last(order: Order, facts: Facts) -> Refused | None:
    """Once more what changes fast: the disk and the bus have had their time since."""
    return _first((expired, still.same_process, still.unchanged, _processes), order, facts)


def is_spent(order: Order, facts: Facts) -> bool:
    """Whether the order holds the challenge of now: whatever becomes of it, the next one needs another."""
    return order.node == facts.node and order.challenge == facts.challenge and order.order_id not in facts.seen


def expired(order: Order, facts: Facts) -> Refused | None:
    """By the wall clock, and by the time since it came, so that a clock that is set back gives it no more life."""
    late = max(facts.now, facts.received_at + timedelta(seconds=facts.waited_seconds)) - order.expires
    if late < timedelta(0):
        return None
    why = f"it was valid until {_time(order.expires)}, {_length(late.total_seconds())} before now on this node's clock"
    return Refused(Refusal.EXPIRED, why)


def _first(checks: Sequence[Check], order: Order, facts: Facts) -> Refused | None:
    return next((refused for check in checks if (refused := check(order, facts)) is not None), None)


# --- is it meant for this node and this moment? -----------------------------------------------------------------------


def _node(order: Order, facts: Facts) -> Refused | None:
    if order.node == facts.node:
        return None
    return Refused(Refusal.OTHER_NODE, f"it is for the node {order.node}, and this is {facts.node}")


def _boot(order: Order, facts: Facts) -> Refused | None:
    if order.boot_id == facts.boot_id:
        return None
    return Refused(Refusal.OTHER_BOOT, "the node has been booted since what the approver saw")


def _spool_epoch(order: Order, facts: Facts) -> Refused | None:
    if order.spool_epoch == facts.spool_epoch:
        return None
    why = "the agent's state folder is another than the one that the approver saw: two agents, or one set up anew"
    return Refused(Refusal.OTHER_SPOOL_EPOCH, why)


def _seen(order: Order, facts: Facts) -> Refused | None:
    if order.order_id not in facts.seen:
        return None
    return Refused(Refusal.REPLAYED, "this order has come before: it is never taken twice")


def _challenge(order: Order, facts: Facts) -> Refused | None:
    if order.challenge == facts.challenge:
        return None
    why = "it does not hold this node's present challenge: it is an old one, or its bot has missed a heartbeat"
    return Refused(Refusal.STALE_CHALLENGE, why)


def _fence(order: Order, facts: Facts) -> Refused | None:
    if order.fence >= facts.highest_fence:
        return None
    why = f"it comes from a bot that has been replaced (its number {order.fence}, seen before {facts.highest_fence})"
    return Refused(Refusal.LOWER_FENCE, why)


def _future(order: Order, facts: Facts) -> Refused | None:
    ahead = order.issued - facts.now
    if ahead <= MOST_SKEW:
        return None
    why = f"it was made {_length(ahead.total_seconds())} ahead of this node's clock: one of the two clocks is wrong"
    return Refused(Refusal.FROM_THE_FUTURE, why)


# --- does this node do it at all, and again already? ------------------------------------------------------------------


def _limit(order: Order, facts: Facts) -> Limit | None:
    if order.action is Action.REBOOT_NODE:
        return facts.allowed.reboot
    return None if order.runner is None else facts.allowed.restarts.get(order.runner.runner)


def _enabled(order: Order, facts: Facts) -> Refused | None:
    if _limit(order, facts) is not None:
        return None
    what = "reboot_node" if order.action is Action.REBOOT_NODE else f"restart_runner.{_runner(order)}"
    return Refused(Refusal.NOT_ENABLED, f"agent.remedies.{what} is not in this node's config")


_BY_POLICY = {
    AutoRemedy.RESTART: frozenset({Action.RESTART_RUNNER}),
    AutoRemedy.RESTART_THEN_REBOOT: frozenset({Action.RESTART_RUNNER, Action.REBOOT_NODE}),
}


def _policy(order: Order, facts: Facts) -> Refused | None:
    """Nobody has looked: only for a confirmed stall of a runner that was asked, and only as this node's config says."""
    if not order.policy:
        return None
    said, auto = order.runner, facts.allowed.auto_remedy
    if order.action not in _BY_POLICY.get(auto, frozenset()):
        return _by_policy(f"this node's config says agent.remedies.auto_remedy: {auto}")
    if order.verdict is not OrderVerdict.STALLED or said is None or said.signal_class is SignalClass.Q:
        return _by_policy("without a person only a confirmed stall is acted upon, of a runner that can be asked")
    if order.anything_may_run or order.accepted_blockers:
        return _by_policy("without a person no blocker can be accepted")
    if facts.tick is None or facts.tick.api is not ApiState.OK:
        return _by_policy("without a person nothing is done while the runner's API does not answer")
    if order.action is Action.REBOOT_NODE and not _was_restarted(said.runner, facts):
        return _by_policy(f"{said.runner} has not been restarted in this boot, and a restart comes first")
    return None


def _by_policy(why: str) -> Refused:
    return Refused(Refusal.POLICY_NOT_ALLOWED, why)


def _was_restarted(runner: str, facts: Facts) -> bool:
    restarts = [act for act in facts.acts if act.action is Action.RESTART_RUNNER and act.runner == runner]
    return any(act.is_this_boot and act.seconds_ago < DAY_SECONDS for act in restarts)


def _under_way(order: Order, facts: Facts) -> Refused | None:
    if not facts.under_way or facts.under_way == order.order_id:
        return None
    return Refused(Refusal.UNDER_WAY, "another order is being carried out on this node")


def _interval(order: Order, facts: Facts) -> Refused | None:
    limit, ages = _limit(order, facts), _ages(order, facts)
    if limit is None or not ages or min(ages) >= limit.minimum_interval_seconds:
        return None
    why = (
        f"the last one was {_length(min(ages))} ago, and {_length(limit.minimum_interval_seconds)} must lie between two"
    )
    return Refused(Refusal.TOO_SOON, why)


def _budget(order: Order, facts: Facts) -> Refused | None:
    limit = _limit(order, facts)
    count = sum(age < DAY_SECONDS for age in _ages(order, facts))
    if limit is None or count < limit.per_day:
        return None
    return Refused(Refusal.BUDGET_SPENT, f"{count} in 24 hours are enough: look for the cause, inspect the hardware")


def _ages(order: Order, facts: Facts) -> list[float]:
    """How long ago the same was begun: this runner's restarts, or any reboot; what nobody knows counts as the same."""
    is_reboot = order.action is Action.REBOOT_NODE
    same = [act for act in facts.acts if act.action is order.action and (is_reboot or act.runner == _runner(order))]
    unknown = [act for act in facts.acts if act.action is Action.UNKNOWN]
    return [act.seconds_ago for act in (*same, *unknown)]


# --- is what would be ended what the approver saw? --------------------------------------------------------------------


def _shared(order: Order, facts: Facts) -> Refused | None:
    """Whoever ends a process ends the work of every runner that it serves."""
    if not facts.sharing or SHARED_PROCESS in order.accepted_blockers:
        return None
    others = ", ".join(facts.sharing[:_SHOWN])
    return Refused(Refusal.NOT_CONFIRMED, f"its process also serves {others}, whose work would end with it")


def _processes(order: Order, facts: Facts) -> Refused | None:
    """Compared by pid and start. Only a person who was told that anything may run can have accepted more."""
    if order.anything_may_run:
        return None
    new = facts.processes.known - frozenset(order.processes)
    if new:
        pids = ", ".join(str(process.pid) for process in sorted(new)[:_SHOWN])
        why = f"processes were started on these GPUs since it was approved: {pids}{' …' if len(new) > _SHOWN else ''}"
        return Refused(Refusal.PROCESSES_CHANGED, why)
    if facts.processes.hidden:
        return Refused(
            Refusal.PROCESSES_UNREADABLE, f"it cannot be read who is on these GPUs: {facts.processes.hidden}"
        )
    return None


def _runner(order: Order) -> str:
    return "" if order.runner is None else order.runner.runner


def _time(instant: datetime) -> str:
    return f"{instant:%H:%M:%S} UTC"


def _length(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


_ONCE: tuple[Check, ...] = (_node, _seen, _challenge, _fence, _future)
_ALWAYS: tuple[Check, ...] = (
    _boot,
    _spool_epoch,
    expired,
    _enabled,
    _under_way,
    _interval,
    _budget,
    still.same_process,
    still.unchanged,
    _shared,
    _policy,
    _processes,
)
