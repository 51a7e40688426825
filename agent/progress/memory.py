"""What is remembered of a runner from tick to tick, and kept on disk over restarts of the agent."""

from collections.abc import Mapping

import msgspec

from agent.progress.usual import Gaps, Rate
from wire.ticks import CanaryOutcome, SignalClass


class CanaryPlan(msgspec.Struct, frozen=True):
    """Whether canaries may be sent while nobody is known to wait, and how much a good one adds to which reading.

    A gauge that a canary moves is named too: its changes beside a good canary are then nobody's progress.
    """

    when_idle: bool = False
    adds: Mapping[str, float] = {}


class Plan(msgspec.Struct, frozen=True):
    """What is configured of a runner. `canary` None: none is sent."""

    runner: str
    preset: str
    signal_class: SignalClass
    tick_seconds: float = 30.0
    canary: CanaryPlan | None = None


class Baseline(msgspec.Struct, frozen=True):
    """Raw values of one life of the runner. `known` are the readings that were there in it.

    `fell_from` holds where a counter stood before it fell: a half-written file that is whole again is no progress.
    `own` is what our good canaries may still add, for `own_ticks` more ticks.
    """

    process: str = ""
    exporter: str = ""
    values: dict[str, float] = {}
    fell_from: dict[str, float] = {}
    known: frozenset[str] = frozenset()
    load: float | None = None
    api_was_ok: bool = False
    own: dict[str, float] = {}
    own_ticks: int = 0


class Clocks(msgspec.Struct, frozen=True):
    """Seconds, as in wire.ticks.Tick; `moved` since the last progress, `good` since a good canary or the start.

    `blind`: a reading of progress is missing, so that work may be moving unseen; `sent` since a canary was sent.
    """

    waiting: float = 0.0
    no_progress: float = 0.0
    unserved: float = 0.0
    no_completion: float = 0.0
    api_dead: float = 0.0
    process_gone: float = 0.0
    error: float = 0.0
    config_error: float = 0.0
    slow: float = 0.0
    loading: float = 0.0
    paused: float = 0.0
    unreadable: float = 0.0
    blocked: float = 0.0
    blind: float = 0.0
    moved: float = 0.0
    good: float = 0.0
    sent: float = 1e8


class Episode(msgspec.Struct, frozen=True):
    """What was seen since the no-progress clock began. `held_seconds`: how long missing readings paused it.

    `unsure_seconds`: how long it stands now; when the readings are back and unmoved, that time has passed too.
    """

    ticks: int = 0
    timeouts: int = 0
    errors: int = 0
    busy: int = 0
    witness_ticks: int = 0
    gpu_highest: float | None = None
    gpu_unread: int = 0
    power_lowest: float | None = None
    held_seconds: float = 0.0
    unsure_seconds: float = 0.0


class LastCanary(msgspec.Struct, frozen=True):
    outcome: CanaryOutcome
    seconds_ago: float
    milliseconds: float | None = None
    detail: str = ""


class Memory(msgspec.Struct, frozen=True):
    """`waiting` is the last that was known; `successes` are good canaries since the clock `unserved` began."""

    boot_id: str
    at_seconds: float
    baseline: Baseline = Baseline()
    clocks: Clocks = Clocks()
    episode: Episode = Episode()
    waiting: bool = False
    has_moved: bool = False
    gone_ticks: int = 0
    successes: int = 0
    canary: LastCanary | None = None
    gaps: Gaps = Gaps()
    completing: Rate = Rate()
    moving: Rate = Rate()
