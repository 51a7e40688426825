"""Is what was said of the runner still true? By verdict: its life, its progress, who waits, and our own canary now."""

from collections.abc import Callable, Mapping

from agent.remedies.facts import Asked, Facts
from agent.remedies.refused import Refused
from wire.orders import Action, Order, OrderVerdict, RunnerFacts
from wire.remedies import Refusal
from wire.ticks import CanaryOutcome, RunnerState, SignalClass, Tick, WitnessKind

_ASKS = frozenset({OrderVerdict.STALLED, OrderVerdict.UNCERTAIN, OrderVerdict.ERRORING})
_SHOWN = 3


def needs_canary(order: Order) -> bool:
    """Whether the runner is asked for a token before anything is done."""
    said = order.runner
    return order.verdict in _ASKS and said is not None and said.signal_class is not SignalClass.Q


def same_process(order: Order, facts: Facts) -> Refused | None:
    """A restart ends one process: the one that was seen, by pid and start."""
    said, tick = order.runner, facts.tick
    if order.action is not Action.RESTART_RUNNER or said is None:
        return None
    if tick is None:
        return _unread(said)
    if (tick.pid, tick.process_started) == (said.pid, said.started):
        return None
    why = f"the process of {said.runner} is another now ({tick.pid or 'none'}, approved was {said.pid or 'none'})"
    return Refused(Refusal.OTHER_PROCESS, why)


def unchanged(order: Order, facts: Facts) -> Refused | None:
    """What the latest tick can tell; a reboot that was asked for without a stall has nothing to compare."""
    said, tick, rule = order.runner, facts.tick, _RULES.get(order.verdict)
    if rule is None or said is None:
        return None
    if tick is None or tick.runner != said.runner:
        return _unread(said)
    if tick.epoch != said.epoch:
        return Refused(Refusal.OTHER_PROCESS, f"{said.runner} has been started anew since")
    if (tick.signal_class is SignalClass.Q) != (said.signal_class is SignalClass.Q):
        return _not_confirmed(f"{said.runner} is read in another way than when it was approved")
    return rule(said, tick)


def not_answered(order: Order, facts: Facts) -> Refused | None:
    """A good canary also sets clocks back: it is what is told."""
    asked = facts.asked if needs_canary(order) else None
    if asked is None or asked.result is None or asked.result.outcome is not CanaryOutcome.OK:
        return None
    return Refused(Refusal.RECOVERED, "it answered a canary just now")


def canary_fails(order: Order, facts: Facts) -> Refused | None:
    """The node's own canary, sent for this order, must fail; `uncertain` also covers runners that cannot be asked."""
    if not needs_canary(order):
        return None
    asked = Asked() if facts.asked is None else facts.asked
    is_uncertain = order.verdict is OrderVerdict.UNCERTAIN
    if asked.result is None:
        if asked.is_off and is_uncertain:
            return None
        return _not_confirmed(f"the runner could not be asked for a token: {asked.unsent or 'it has no canary'}")
    outcome = asked.result.outcome
    if outcome in _FAILING[order.verdict]:
        return None
    return _not_confirmed(f"a canary just now ended as {outcome}, which proves nothing: {asked.result.detail or '-'}")


_FAILING: Mapping[OrderVerdict, frozenset[CanaryOutcome]] = {
    OrderVerdict.STALLED: frozenset({CanaryOutcome.TIMEOUT, CanaryOutcome.ERROR}),
    OrderVerdict.UNCERTAIN: frozenset({CanaryOutcome.TIMEOUT, CanaryOutcome.ERROR, CanaryOutcome.BUSY}),
    OrderVerdict.ERRORING: frozenset({CanaryOutcome.ERROR}),
}


# --- one rule for each verdict ----------------------------------------------------------------------------------------


def _quiet(said: RunnerFacts, tick: Tick) -> Refused | None:
    return _unmoved(said, tick) or (_waiting(tick) if tick.signal_class is SignalClass.Q else None)


def _unmoved(said: RunnerFacts, tick: Tick) -> Refused | None:
    before, now = _values(said.completed, said.progress), _values(tick.completed, tick.progress)
    moved = [name for name in before if name in now and now[name] != before[name]]
    if moved or tick.has_moved:
        shown = "; ".join(f"{name} {before[name]:g} -> {now[name]:g}" for name in moved[:_SHOWN])
        return Refused(Refusal.RECOVERED, f"work moves again{f' ({shown})' if shown else ''}")
    missing = sorted(before.keys() - now.keys())
    if missing and not any(witness.kind is WitnessKind.LOOP_HANGS for witness in tick.witnesses):
        return _not_confirmed(f"it cannot be read now whether work moves ({', '.join(missing[:_SHOWN])})")
    if tick.no_progress_seconds < said.no_progress_seconds and tick.canary is CanaryOutcome.OK:
        return Refused(Refusal.RECOVERED, f"it answered a canary {tick.canary_seconds_ago or 0:.0f} s ago")
    if tick.no_progress_seconds < said.no_progress_seconds:
        why = f"nothing has moved for {tick.no_progress_seconds:.0f} s, it was {said.no_progress_seconds:.0f} s"
        return _not_confirmed(f"{why}: something moved in between, or the agent was started anew")
    return None


def _values(completed: float | None, progress: Mapping[str, float]) -> dict[str, float]:
    return {**progress, **({} if completed is None else {"completed": completed})}


def _waiting(tick: Tick) -> Refused | None:
    demands = [value for value in (tick.demand, tick.own_demand) if value is not None]
    if not demands:
        return _not_confirmed("it cannot be read now whether anybody waits")
    return None if max(demands) > 0 else Refused(Refusal.RECOVERED, "nobody waits any more")


def _load_stands(said: RunnerFacts, tick: Tick) -> Refused | None:
    if tick.state is not RunnerState.LOADING:
        return Refused(Refusal.RECOVERED, f"it does not load any more, it is {tick.state}")
    if said.load is None or tick.load is None:
        return _not_confirmed("it cannot be read now whether the loading moves")
    return None if said.load == tick.load else Refused(Refusal.RECOVERED, "the loading goes on")


_RULES: Mapping[OrderVerdict, Callable[[RunnerFacts, Tick], Refused | None]] = {
    OrderVerdict.STALLED: _quiet,
    OrderVerdict.UNCERTAIN: _quiet,
    OrderVerdict.LOAD_STUCK: _load_stands,
    OrderVerdict.ERRORING: _unmoved,
}


def _unread(said: RunnerFacts) -> Refused:
    return _not_confirmed(f"{said.runner} cannot be read now")


def _not_confirmed(why: str) -> Refused:
    return Refused(Refusal.NOT_CONFIRMED, why)
