"""One reading more -> the memory with all clocks moved on, and the tick that says so."""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from agent.progress import clocks, moves
from agent.progress.memory import Baseline, Episode, LastCanary, Memory, Plan
from agent.progress.step import Step, state_of, waiting_of, witnesses_of
from agent.progress.tick import tick_of
from agent.progress.usual import Gaps
from agent.runner_reading import RunnerReading
from wire.ticks import CanaryOutcome, Tick, present_seconds


def fold(
    before: Memory | None, reading: RunnerReading, plan: Plan, *, boot_id: str, at_seconds: float, taken_at: datetime
) -> tuple[Memory, Tick]:
    """`at_seconds` is the time since boot. Of another boot only what the runner usually does is remembered."""
    was, seconds = _carried(before, plan, boot_id, at_seconds)
    baseline, is_other = moves.epoch_of(was.baseline, reading)
    if is_other:
        was = _without_clocks(was)
    moved, after = moves.compare(baseline, reading, plan.canary)
    step = Step(
        reading=reading,
        seconds=seconds,
        moved=moved,
        state=state_of(reading, after),
        waiting=waiting_of(was, reading, moved, after),
        witnesses=witnesses_of(was, reading, seconds),
        has_canary=plan.canary is not None,
        is_cut=is_other or seconds == 0.0,
    )
    memory = _folded(was, step, after, at_seconds)
    return memory, tick_of(memory, step, plan, taken_at)


def _carried(before: Memory | None, plan: Plan, boot_id: str, at_seconds: float) -> tuple[Memory, float]:
    """What still counts, and the seconds since then: 0 where the clocks cannot go on."""
    if before is None:
        return Memory(boot_id, at_seconds), 0.0
    if before.boot_id != boot_id or at_seconds < before.at_seconds:
        return replace(_without_clocks(before), boot_id=boot_id, baseline=Baseline()), 0.0
    seconds = at_seconds - before.at_seconds
    return (before, seconds) if seconds <= present_seconds(plan.tick_seconds) else (_without_clocks(before), 0.0)


def _without_clocks(before: Memory) -> Memory:
    return Memory(
        before.boot_id,
        before.at_seconds,
        baseline=before.baseline,
        gaps=before.gaps,
        completing=before.completing,
        moving=before.moving,
    )


def _folded(was: Memory, step: Step, baseline: Baseline, at_seconds: float) -> Memory:
    held = clocks.is_held(was, step)
    return Memory(
        boot_id=was.boot_id,
        at_seconds=at_seconds,
        baseline=baseline,
        clocks=clocks.clocks(was, step, held),
        episode=_episode(was, step, held),
        waiting=was.waiting if step.waiting is None else step.waiting,
        has_moved=step.moved.progress,
        gone_ticks=was.gone_ticks + 1 if clocks.is_gone(step) else 0,
        successes=_successes(was, step),
        canary=_last_canary(was, step),
        gaps=_gaps(was, step),
        completing=clocks.faster_or_slower(was.completing, was, step, step.moved.completed),
        moving=clocks.faster_or_slower(was.moving, was, step, step.moved.amount),
    )


def _episode(was: Memory, step: Step, held: bool) -> Episode:
    """What happened beside progress, before anybody waited, or through a rest counts for nothing."""
    if step.ends_wait or (step.waiting is None and not was.waiting):
        return Episode()
    before, outcome, gpu = was.episode, step.outcome, step.reading.gpu
    return Episode(
        ticks=before.ticks + 1,
        timeouts=before.timeouts + (outcome is CanaryOutcome.TIMEOUT),
        errors=before.errors + (outcome is CanaryOutcome.ERROR),
        busy=before.busy + (outcome is CanaryOutcome.BUSY),
        witness_ticks=before.witness_ticks + bool(step.witnesses),
        gpu_highest=_extreme(max, before.gpu_highest, gpu.utilization_percent),
        gpu_unread=before.gpu_unread + (gpu.utilization_percent is None),
        power_lowest=_extreme(min, before.power_lowest, gpu.power_watts),
        held_seconds=before.held_seconds + (step.seconds if held and step.moved.missing else 0.0),
        unsure_seconds=min(clocks.LONGEST_HOLD_SECONDS, before.unsure_seconds + step.seconds) if held else 0.0,
    )


def _extreme(choose: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    """None only when neither was read."""
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _successes(was: Memory, step: Step) -> int:
    if step.clears or step.waiting is False:
        return 0
    return was.successes + (step.outcome is CanaryOutcome.OK)


def _last_canary(was: Memory, step: Step) -> LastCanary | None:
    ended, last = step.reading.canary, was.canary
    if ended is not None:
        return LastCanary(ended.outcome, 0.0, ended.milliseconds, ended.detail)
    return None if last is None else replace(last, seconds_ago=last.seconds_ago + step.seconds)


def _gaps(was: Memory, step: Step) -> Gaps:
    """A gap is the time between two movements while somebody waited all along."""
    if not step.moved.progress or step.is_cut or not was.waiting:
        return was.gaps
    return was.gaps.with_gap(was.clocks.no_progress + step.seconds)
