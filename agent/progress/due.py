"""When a canary is sent: never beside work that moves, never two at once."""

from enum import StrEnum

from agent.progress.clocks import LONGEST_HOLD_SECONDS
from agent.progress.memory import Memory, Plan
from agent.progress.step import RESTING, state_of
from agent.runner_reading import RunnerReading
from wire.ticks import ApiState, CanaryOutcome

SUSPICION_SECONDS = 120.0
EVERY_SECONDS = 120.0
IDLE_SECONDS = 300.0
AFTER_CONFIG_ERROR_SECONDS = 300.0
USUAL_TICK_SECONDS = 30.0  # shorter ticks, which only `mode: demo` allows, make all of these as much shorter
_EARLY_SECONDS = 0.5  # a tick does not come at the exact second


class Why(StrEnum):
    SUSPICION = "suspicion"
    IDLE = "idle"


def canary_due(memory: Memory, reading: RunnerReading, plan: Plan) -> Why | None:
    """Asked right after the tick of `reading`; `memory` is the one after it."""
    scale = min(1.0, plan.tick_seconds / USUAL_TICK_SECONDS)
    if plan.canary is None or not _is_allowed(memory, reading, scale):
        return None
    clocks = memory.clocks
    if memory.waiting:
        has_failed = memory.episode.timeouts + memory.episode.errors + memory.episode.busy > 0
        unmoved_seconds = clocks.no_progress + memory.episode.unsure_seconds + _EARLY_SECONDS
        is_suspicious = has_failed or unmoved_seconds >= SUSPICION_SECONDS * scale
        return Why.SUSPICION if is_suspicious else None
    if not plan.canary.when_idle or not reading.may_ask_when_idle or reading.demand is not None:
        return None
    quiet_seconds = min(clocks.moved, clocks.good) + _EARLY_SECONDS
    return Why.IDLE if quiet_seconds >= IDLE_SECONDS * scale else None


def _is_allowed(memory: Memory, reading: RunnerReading, scale: float) -> bool:
    if reading.canary_outstanding_seconds is not None or memory.has_moved or _may_move_unseen(memory):
        return False
    if state_of(reading, memory.baseline) in RESTING or reading.api is None or reading.api.state is not ApiState.OK:
        return False
    was_refused = memory.canary is not None and memory.canary.outcome is CanaryOutcome.CONFIG
    pause_seconds = AFTER_CONFIG_ERROR_SECONDS if was_refused else EVERY_SECONDS
    return memory.clocks.sent + _EARLY_SECONDS >= pause_seconds * scale


def _may_move_unseen(memory: Memory) -> bool:
    """For a while. A page that stays away for longer may hang with the runner, and only asking can tell."""
    return 0 < memory.clocks.blind <= LONGEST_HOLD_SECONDS
