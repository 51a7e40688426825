"""Collects what the parts of one reading found, and makes the reading of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.runner_reading import Api, GpuLook, RunnerProcess, RunnerReading
from agent.runners.preset import Role, Signal
from agent.runners.sources import Unread
from wire.ticks import RunnerState, Witness

_MAY_BE_NEGATIVE = frozenset({Role.GAUGE})


@dataclass
class Gathered:
    """Parts fill it in any order. A demand of which one part is missing is missing as a whole."""

    api: Api | None = None
    process: RunnerProcess | None = None
    read_bytes: float | None = None
    completed: float | None = None
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    demands: dict[str, float | None] = field(default_factory=dict)
    own_demands: dict[str, float | None] = field(default_factory=dict)
    awake: float | None = None
    loaded: float | None = None
    is_loading: bool = False
    exporter: str | None = None
    may_ask_when_idle: bool = True
    witnesses: list[Witness] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    config_errors: list[str] = field(default_factory=list)

    def unread(self, what: str, why: Unread) -> None:
        self.missing.append(f"{what}: {why.why}")
        if why.is_config_error:
            self.config_errors.append(f"{what}: {why.why}")

    def signal(self, signal: Signal, value: float | None) -> None:
        """`value` None, or one that cannot be, is not read."""
        if value is not None and value < 0 and signal.role not in _MAY_BE_NEGATIVE:
            value = None
        if value == 0 and signal.zero_is_unread:
            value = None
        if value is not None and signal.is_idle:
            value = 0.0 if value else 1.0
        _TAKE[signal.role](self, signal.name, value)

    def reading(self, gpu: GpuLook) -> RunnerReading:
        return RunnerReading(
            api=self.api,
            process=self.process,
            completed=self.completed,
            counters=self.counters,
            gauges=self.gauges,
            demand=_whole(self.demands),
            own_demand=_whole(self.own_demands),
            state=self._state(),
            load=self._load(gpu),
            gpu=gpu,
            witnesses=tuple(self.witnesses),
            exporter=self.exporter,
            missing=tuple(self.missing),
            config_error="; ".join(self.config_errors) or None,
            may_ask_when_idle=self.may_ask_when_idle,
        )

    def _state(self) -> RunnerState:
        if self.is_loading:
            return RunnerState.LOADING
        if self.awake == 0:
            return RunnerState.PAUSED
        return RunnerState.UNLOADED if self.loaded == 0 else RunnerState.READY

    def _load(self, gpu: GpuLook) -> float | None:
        """Bytes read and GPU memory: a model that comes up moves one of them."""
        parts = [float(part) for part in (self.read_bytes, gpu.memory_bytes) if part is not None]
        return sum(parts) if parts else None


def _whole(demands: dict[str, float | None]) -> float | None:
    """The sum; one that is above 0 shows that somebody waits even where another is missing."""
    known = [value for value in demands.values() if value is not None]
    total = sum(known)
    return total if known and (total > 0 or len(known) == len(demands)) else None


def _completed(gathered: Gathered, name: str, value: float | None) -> None:
    gathered.completed = value


def _counter(gathered: Gathered, name: str, value: float | None) -> None:
    if value is not None:
        gathered.counters[name] = value


def _gauge(gathered: Gathered, name: str, value: float | None) -> None:
    if value is not None:
        gathered.gauges[name] = value


def _demand(gathered: Gathered, name: str, value: float | None) -> None:
    gathered.demands[name] = value


def _own_demand(gathered: Gathered, name: str, value: float | None) -> None:
    gathered.own_demands[name] = value


def _awake(gathered: Gathered, name: str, value: float | None) -> None:
    gathered.awake = value


def _loaded(gathered: Gathered, name: str, value: float | None) -> None:
    gathered.loaded = value


def _exporter(gathered: Gathered, name: str, value: float | None) -> None:
    gathered.exporter = None if value is None else f"{value:.2f}"


_TAKE: dict[Role, Callable[[Gathered, str, float | None], None]] = {
    Role.COMPLETED: _completed,
    Role.COUNTER: _counter,
    Role.GAUGE: _gauge,
    Role.DEMAND: _demand,
    Role.OWN_DEMAND: _own_demand,
    Role.AWAKE: _awake,
    Role.LOADED: _loaded,
    Role.EXPORTER: _exporter,
}
