"""The tick: what was read and what the clocks say, within the bounds of what may be sent."""

from collections.abc import Iterable
from datetime import datetime

from agent.progress.memory import Memory, Plan
from agent.progress.moves import COARSE, COMPLETED
from agent.progress.step import Step
from wire.ticks import MOST_MISSING, MOST_SIGNALS, RunnerState, SignalClass, Tick, Witness, sentence


def tick_of(memory: Memory, step: Step, plan: Plan, taken_at: datetime) -> Tick:
    """`memory` is the one after the step."""
    reading, clocks, episode, last = step.reading, memory.clocks, memory.episode, memory.canary
    api, process, known = reading.api, reading.process, memory.baseline.known
    return Tick(
        runner=plan.runner,
        preset=plan.preset,
        signal_class=_seen_class(plan.signal_class, known),
        at_seconds=_rounded(memory.at_seconds),
        taken_at=taken_at,
        tick_seconds=plan.tick_seconds,
        epoch=_epoch(memory),
        api=None if api is None else api.state,
        api_milliseconds=None if api is None or api.milliseconds is None else _rounded(api.milliseconds),
        api_detail="" if api is None else sentence(api.detail),
        process=None if process is None else process.state,
        pid=None if process is None else process.pid,
        process_started="" if process is None else process.started,
        completed=reading.completed,
        progress=dict(sorted({**reading.counters, **reading.gauges}.items())[:MOST_SIGNALS]),
        demand=reading.demand,
        own_demand=reading.own_demand,
        state=step.state,
        load=reading.load,
        gpu_utilization_percent=reading.gpu.utilization_percent,
        gpu_power_watts=reading.gpu.power_watts,
        witnesses=_witnesses(step.witnesses),
        missing=[sentence(why) for why in reading.missing[:MOST_MISSING]],
        has_moved=memory.has_moved,
        canary=None if last is None else last.outcome,
        canary_seconds_ago=None if last is None else _rounded(last.seconds_ago),
        canary_milliseconds=None if last is None or last.milliseconds is None else _rounded(last.milliseconds),
        canary_detail="" if last is None else sentence(last.detail),
        canary_outstanding_seconds=_or_none(reading.canary_outstanding_seconds),
        waiting_seconds=_rounded(clocks.waiting),
        no_progress_seconds=_rounded(clocks.no_progress),
        unserved_seconds=_rounded(clocks.unserved),
        no_completion_seconds=_rounded(clocks.no_completion) if COMPLETED in known else None,
        api_dead_seconds=_rounded(clocks.api_dead),
        process_gone_seconds=_rounded(clocks.process_gone),
        process_gone_ticks=memory.gone_ticks,
        error_seconds=_rounded(clocks.error),
        config_error_seconds=_rounded(clocks.config_error),
        slow_seconds=_rounded(clocks.slow),
        loading_seconds=_loading(memory, step),
        paused_seconds=_rounded(clocks.paused),
        unreadable_seconds=_rounded(clocks.unreadable),
        last_moved_seconds=_rounded(clocks.moved),
        ticks=episode.ticks,
        canary_timeouts=episode.timeouts,
        canary_errors=episode.errors,
        canary_successes=memory.successes,
        witness_ticks=episode.witness_ticks,
        gpu_highest_percent=None if episode.gpu_highest is None else round(episode.gpu_highest),
        gpu_unread_ticks=episode.gpu_unread,
        power_lowest_watts=episode.power_lowest,
        gap_p99_seconds=memory.gaps.p99_seconds(),
        gaps=memory.gaps.number,
        usual_per_hour=_or_none(memory.completing.usual_per_hour),
    )


def _seen_class(configured: SignalClass, known: frozenset[str]) -> SignalClass:
    """Never better than what was really read in this life of the runner: a page can be switched off."""
    if configured in (SignalClass.Q, SignalClass.C):
        return configured
    if configured is SignalClass.A and known - COARSE:
        return configured
    return SignalClass.B if COMPLETED in known else SignalClass.C


def _epoch(memory: Memory) -> str:
    baseline = memory.baseline
    parts = (memory.boot_id[:8], baseline.process, baseline.exporter)
    return "/".join(part for part in parts if part)[:64]


def _loading(memory: Memory, step: Step) -> float | None:
    """None where neither bytes nor memory can be read: that nothing moves is then not known."""
    if step.state is not RunnerState.LOADING:
        return 0.0
    return None if memory.baseline.load is None else _rounded(memory.clocks.loading)


def _witnesses(seen: Iterable[Witness]) -> list[Witness]:
    return [Witness(w.kind, _rounded(w.seen_seconds_ago), sentence(w.detail)) for w in seen][:MOST_SIGNALS]


def _rounded(value: float) -> float:
    return round(value, 1)


def _or_none(value: float | None) -> float | None:
    return None if value is None else _rounded(value)
