"""What was read of one runner at one tick, before anything is concluded from it."""

from collections.abc import Mapping

import msgspec

from wire.ticks import ApiState, CanaryOutcome, ProcessState, RunnerState, Witness


class Api(msgspec.Struct, frozen=True):
    """The answer of the URL that proves connectivity and nothing else."""

    state: ApiState
    milliseconds: float | None = None
    detail: str = ""


class RunnerProcess(msgspec.Struct, frozen=True):
    """The runner's process. `started` is its start time in clock ticks since boot: with the pid it is its identity.

    `age_seconds` None: not known.
    """

    state: ProcessState
    pid: int | None = None
    started: str = ""
    age_seconds: float | None = None


class CanaryResult(msgspec.Struct, frozen=True):
    """A canary that ended since the last tick. `milliseconds` to the first token, None without one."""

    outcome: CanaryOutcome
    sent_seconds_ago: float
    milliseconds: float | None = None
    detail: str = ""


class GpuLook(msgspec.Struct, frozen=True):
    """The runner's GPUs since the last tick: highest utilisation, sum of power and memory. None: not read."""

    utilization_percent: int | None = None
    power_watts: float | None = None
    memory_bytes: int | None = None
    witnesses: tuple[Witness, ...] = ()


class RunnerReading(msgspec.Struct, frozen=True):
    """None, or a name that is not there, means not read: never 0.

    `counters` only grow while the runner lives, `gauges` may move either way; a change of either is progress. `demand`
    is how much waits by somebody independent of the runner, `own_demand` how much the runner itself says. `load`
    changes while a model is loaded. `exporter` tells one life of the runner from the next. `config_error` is ours.
    `may_ask_when_idle`: a canary could neither load nor evict anything now, nor keep anything loaded.
    """

    api: Api | None = None
    process: RunnerProcess | None = None
    completed: float | None = None
    counters: Mapping[str, float] = {}
    gauges: Mapping[str, float] = {}
    demand: float | None = None
    own_demand: float | None = None
    state: RunnerState = RunnerState.READY
    load: float | None = None
    gpu: GpuLook = GpuLook()
    witnesses: tuple[Witness, ...] = ()
    exporter: str | None = None
    missing: tuple[str, ...] = ()
    config_error: str | None = None
    may_ask_when_idle: bool = True
    canary: CanaryResult | None = None
    canary_outstanding_seconds: float | None = None
