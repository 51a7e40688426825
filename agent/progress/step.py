"""One tick's facts, each concluded once."""

import msgspec

from agent.progress import moves
from agent.progress.memory import Baseline, Memory
from agent.progress.moves import Moved
from agent.runner_reading import RunnerReading
from wire.ticks import ApiState, CanaryOutcome, ProcessState, RunnerState, Witness, WitnessKind

BLOCKED_SECONDS = 60.0
LONGEST_START_SECONDS = 7200.0  # weights from a slow disk take an hour
RESTING = frozenset({RunnerState.LOADING, RunnerState.PAUSED, RunnerState.UNLOADED})


class Step(msgspec.Struct, frozen=True):
    """`seconds` since the tick before. `waiting` None: cannot be told now. `is_cut`: nothing to compare with."""

    reading: RunnerReading
    seconds: float
    moved: Moved
    state: RunnerState
    waiting: bool | None
    witnesses: tuple[Witness, ...]
    has_canary: bool
    is_cut: bool

    @property
    def outcome(self) -> CanaryOutcome | None:
        return None if self.reading.canary is None else self.reading.canary.outcome

    @property
    def clears(self) -> bool:
        """Progress, rest, or nothing to compare with: no clock of waiting runs through it."""
        return self.moved.progress or self.is_cut or self.state in RESTING

    @property
    def ends_wait(self) -> bool:
        return self.clears or self.outcome is CanaryOutcome.OK or self.waiting is False

    @property
    def loop_hangs(self) -> bool:
        """Then what is missing is not unread: it is the evidence."""
        return any(witness.kind is WitnessKind.LOOP_HANGS for witness in self.witnesses)


def state_of(reading: RunnerReading, baseline: Baseline) -> RunnerState:
    """A young process whose API has not answered in its life yet is still coming up."""
    is_mute = reading.api is not None and reading.api.state is not ApiState.OK and not baseline.api_was_ok
    age_seconds = None if reading.process is None else reading.process.age_seconds
    is_young = age_seconds is not None and age_seconds < LONGEST_START_SECONDS
    return RunnerState.LOADING if is_mute and is_young and reading.state is RunnerState.READY else reading.state


def waiting_of(was: Memory, reading: RunnerReading, moved: Moved, baseline: Baseline) -> bool | None:
    """Whether somebody waits; None where a demand that used to be there was not read."""
    values = [value for value in (reading.demand, reading.own_demand) if value is not None]
    if any(value > 0 for value in values) or _canary_waits(was, reading, moved):
        return True
    used_to_be_there = baseline.known & {moves.DEMAND, moves.OWN_DEMAND}
    return False if len(values) == len(used_to_be_there) else None


def witnesses_of(was: Memory, reading: RunnerReading, seconds: float) -> tuple[Witness, ...]:
    """Those that were read, and a process that no signal has reached for a minute."""
    blocked = was.clocks.blocked + seconds
    is_blocked = reading.process is not None and reading.process.state is ProcessState.BLOCKED
    by_process = (Witness(WitnessKind.BLOCKED_PROCESS),) if is_blocked and blocked > BLOCKED_SECONDS else ()
    return (*reading.witnesses, *reading.gpu.witnesses, *by_process)


def _canary_waits(was: Memory, reading: RunnerReading, moved: Moved) -> bool:
    """Our own canary is somebody who waits, until a later one was good or something moved."""
    if reading.canary_outstanding_seconds is not None:
        return True
    if reading.canary is not None and reading.canary.outcome is not CanaryOutcome.CONFIG:
        return reading.canary.outcome is not CanaryOutcome.OK
    return not moved.progress and was.episode.timeouts + was.episode.errors + was.episode.busy > 0
