"""One tick of a runner -> one verdict, with the numbers it rests on: what was before is in the tick's clocks."""

from collections.abc import Callable, Iterator
from enum import StrEnum

import msgspec

from wire.ticks import ApiState, CanaryOutcome, RunnerState, SignalClass, Tick


class StallVerdict(StrEnum):
    """From harmless to bad. `uncertain` may be a hang or very long work: nobody can tell."""

    IDLE = "idle"
    WORKING = "working"
    LOADING = "loading"
    PAUSED = "paused"
    SUSPECT = "suspect"
    DEGRADED = "degraded"
    RUNAWAY = "runaway"
    WORK_STUCK = "work_stuck"
    BLIND = "blind"
    LOAD_STUCK = "load_stuck"
    UNCERTAIN = "uncertain"
    ERRORING = "erroring"
    STALLED = "stalled"
    DOWN = "down"


HARMLESS = frozenset(
    {StallVerdict.IDLE, StallVerdict.WORKING, StallVerdict.LOADING, StallVerdict.PAUSED, StallVerdict.SUSPECT}
)


class Ground(StrEnum):
    """What a verdict rests on; each has a number or a word beside it."""

    NO_PROGRESS = "no_progress"
    WAITING = "waiting"
    CANARY_TIMEOUTS = "canary_timeouts"
    CANARY_ERRORS = "canary_errors"
    CANARY_OK = "canary_ok"
    FEW_TIMEOUTS = "few_timeouts"
    WITNESSES = "witnesses"
    GPU_QUIET = "gpu_quiet"
    GPU_BUSY_OR_UNKNOWN = "gpu_busy_or_unknown"
    OWN_GAPS = "own_gaps"
    FEW_GAPS = "few_gaps"
    API_DEAD = "api_dead"
    PROCESS_GONE = "process_gone"
    LOAD_STANDS = "load_stands"
    PAUSED_WITH_WORK = "paused_with_work"
    UNSERVED = "unserved"
    NO_COMPLETION = "no_completion"
    SLOW = "slow"
    UNREADABLE = "unreadable"
    CONFIG_ERROR = "config_error"
    MOVED = "moved"


class Reason(msgspec.Struct, frozen=True):
    """`value` is in seconds for clocks, else a count or a percentage; `words` are the node's (foreign: escape them)."""

    ground: Ground
    value: float = 0.0
    words: str = ""


class Judgement(msgspec.Struct, frozen=True):
    """`is_fast` tells a stall that was confirmed early, because something else speaks for it too."""

    verdict: StallVerdict
    reasons: tuple[Reason, ...] = ()
    is_fast: bool = False


class StallSettings(msgspec.Struct, frozen=True):
    """Every threshold, in seconds where the name says so. The sources of the numbers are in docs/runners.md."""

    stalled_timeouts: int = 3
    stalled_fast_seconds: float = 600.0
    stalled_slow_a_seconds: float = 1020.0
    stalled_slow_b_seconds: float = 1200.0
    stalled_c_seconds: float = 1200.0
    witness_ticks: int = 2
    gpu_quiet_percent: int = 3
    gpu_unread_share: float = 1 / 3
    gap_factor: float = 3.0
    gap_least_seconds: float = 900.0
    gap_most_seconds: float = 1560.0
    gaps_needed: int = 20
    uncertain_seconds: float = 1560.0
    uncertain_c_seconds: float = 1800.0
    load_stuck_seconds: float = 1200.0
    error_count: int = 3
    error_seconds: float = 300.0
    process_gone_ticks: int = 2
    process_gone_seconds: float = 60.0
    api_dead_seconds: float = 300.0
    blind_seconds: float = 600.0
    runaway_seconds: float = 3600.0
    work_stuck_seconds: float = 1200.0
    paused_seconds: float = 1800.0
    degraded_seconds: float = 1200.0
    degraded_moved_within_seconds: float = 600.0
    idle_settles_seconds: float = 600.0


DEFAULTS = StallSettings()


def judge(tick: Tick, settings: StallSettings = DEFAULTS) -> Judgement:
    """The worst verdict that the tick supports."""
    for rule in RULES:
        judgement = rule(tick, settings)
        if judgement is not None:
            return judgement
    return _harmless(tick)


def _down(tick: Tick, settings: StallSettings) -> Judgement | None:
    is_gone = tick.process_gone_seconds >= settings.process_gone_seconds
    if is_gone and tick.process_gone_ticks >= settings.process_gone_ticks:
        return _judged(StallVerdict.DOWN, Reason(Ground.PROCESS_GONE, tick.process_gone_seconds))
    if tick.api_dead_seconds >= settings.api_dead_seconds:
        return _judged(StallVerdict.DOWN, Reason(Ground.API_DEAD, tick.api_dead_seconds, tick.api_detail))
    return None


def _stalled(tick: Tick, settings: StallSettings) -> Judgement | None:
    if tick.signal_class is SignalClass.Q:
        return _stalled_q(tick, settings)
    if not _api_lives(tick) or tick.canary_timeouts < settings.stalled_timeouts:
        return None
    support = tuple(_support(tick, settings))
    reasons = (*_no_progress(tick), Reason(Ground.CANARY_TIMEOUTS, tick.canary_timeouts), *support)
    if tick.signal_class in _SLOW:
        is_fast = bool(support) and tick.no_progress_seconds >= settings.stalled_fast_seconds
        is_slow = tick.no_progress_seconds >= getattr(settings, _SLOW[tick.signal_class])
        return Judgement(StallVerdict.STALLED, reasons, is_fast) if is_fast or is_slow else None
    is_long = tick.no_progress_seconds >= settings.stalled_c_seconds
    return _judged(StallVerdict.STALLED, *reasons) if support and is_long else None


_SLOW = {SignalClass.A: "stalled_slow_a_seconds", SignalClass.B: "stalled_slow_b_seconds"}


def _stalled_q(tick: Tick, settings: StallSettings) -> Judgement | None:
    if tick.gap_p99_seconds is None or tick.gaps < settings.gaps_needed:
        return None
    limit = min(max(settings.gap_factor * tick.gap_p99_seconds, settings.gap_least_seconds), settings.gap_most_seconds)
    if tick.no_progress_seconds < limit:
        return None
    return _judged(StallVerdict.STALLED, *_no_progress(tick), Reason(Ground.OWN_GAPS, limit))


def _api_lives(tick: Tick) -> bool:
    """An answer that is missing in one tick makes nobody dead: what was last known holds."""
    return tick.api is ApiState.OK or (tick.api is None and tick.api_dead_seconds == 0)


def _support(tick: Tick, settings: StallSettings) -> Iterator[Reason]:
    """What speaks for a hang beside the silence: broken parts, or GPUs at rest while somebody waits."""
    if tick.witness_ticks >= settings.witness_ticks:
        words = ", ".join(sorted({witness.kind.value for witness in tick.witnesses}))
        yield Reason(Ground.WITNESSES, tick.witness_ticks, words)
    highest = tick.gpu_highest_percent
    is_known = tick.gpu_unread_ticks <= settings.gpu_unread_share * tick.ticks
    if highest is not None and highest <= settings.gpu_quiet_percent and is_known:
        yield Reason(Ground.GPU_QUIET, highest)


def _erroring(tick: Tick, settings: StallSettings) -> Judgement | None:
    if tick.canary_errors < settings.error_count or tick.error_seconds < settings.error_seconds:
        return None
    errors = Reason(Ground.CANARY_ERRORS, tick.canary_errors, tick.canary_detail)
    return _judged(StallVerdict.ERRORING, errors, *_no_progress(tick))


def _uncertain(tick: Tick, settings: StallSettings) -> Judgement | None:
    """Also where too few canaries could time out, so that nothing will ever be confirmed."""
    is_c = tick.signal_class in (SignalClass.C, SignalClass.UNKNOWN)
    if tick.no_progress_seconds < (settings.uncertain_c_seconds if is_c else settings.uncertain_seconds):
        return None
    if tick.signal_class is SignalClass.Q:
        return _judged(StallVerdict.UNCERTAIN, *_no_progress(tick), Reason(Ground.FEW_GAPS, tick.gaps))
    if not _api_lives(tick):
        return None
    if tick.canary_timeouts < settings.stalled_timeouts:
        few = Reason(Ground.FEW_TIMEOUTS, tick.canary_timeouts, tick.canary_detail)
        return _judged(StallVerdict.UNCERTAIN, *_no_progress(tick), few)
    return _judged(StallVerdict.UNCERTAIN, *_no_progress(tick), Reason(Ground.GPU_BUSY_OR_UNKNOWN))


def _load_stuck(tick: Tick, settings: StallSettings) -> Judgement | None:
    if tick.loading_seconds is None or tick.loading_seconds < settings.load_stuck_seconds:
        return None
    return _judged(StallVerdict.LOAD_STUCK, Reason(Ground.LOAD_STANDS, tick.loading_seconds))


def _blind(tick: Tick, settings: StallSettings) -> Judgement | None:
    words = "; ".join(tick.missing)
    if tick.config_error_seconds >= settings.blind_seconds:
        detail = tick.canary_detail if tick.canary is CanaryOutcome.CONFIG else words
        return _judged(StallVerdict.BLIND, Reason(Ground.CONFIG_ERROR, tick.config_error_seconds, detail))
    if tick.unreadable_seconds >= settings.blind_seconds:
        return _judged(StallVerdict.BLIND, Reason(Ground.UNREADABLE, tick.unreadable_seconds, words))
    return None


def _work_stuck(tick: Tick, settings: StallSettings) -> Judgement | None:
    if tick.paused_seconds >= settings.paused_seconds:
        return _judged(StallVerdict.WORK_STUCK, Reason(Ground.PAUSED_WITH_WORK, tick.paused_seconds))
    if tick.unserved_seconds < settings.work_stuck_seconds or not (tick.demand is not None and tick.demand > 0):
        return None
    if not tick.canary_successes or tick.canary_timeouts or tick.canary_errors:
        return None
    good = Reason(Ground.CANARY_OK, tick.canary_successes)
    return _judged(StallVerdict.WORK_STUCK, Reason(Ground.UNSERVED, tick.unserved_seconds), good)


def _runaway(tick: Tick, settings: StallSettings) -> Judgement | None:
    seconds = tick.no_completion_seconds
    if seconds is None or seconds < settings.runaway_seconds or not tick.progress:
        return None
    if tick.no_progress_seconds >= settings.degraded_moved_within_seconds:
        return None
    return _judged(StallVerdict.RUNAWAY, Reason(Ground.NO_COMPLETION, seconds))


def _degraded(tick: Tick, settings: StallSettings) -> Judgement | None:
    still_moves = tick.no_progress_seconds < settings.degraded_moved_within_seconds
    if tick.slow_seconds < settings.degraded_seconds or not still_moves:
        return None
    return _judged(StallVerdict.DEGRADED, Reason(Ground.SLOW, tick.slow_seconds))


RULES: tuple[Callable[[Tick, StallSettings], Judgement | None], ...] = (
    _down,
    _stalled,
    _erroring,
    _uncertain,
    _load_stuck,
    _blind,
    _work_stuck,
    _runaway,
    _degraded,
)
"""In the order of what matters more."""

_RESTS = {
    RunnerState.LOADING: StallVerdict.LOADING,
    RunnerState.PAUSED: StallVerdict.PAUSED,
    RunnerState.UNLOADED: StallVerdict.IDLE,
}


def _harmless(tick: Tick) -> Judgement:
    if tick.state in _RESTS:
        return _judged(_RESTS[tick.state])
    if tick.has_moved:
        return _judged(StallVerdict.WORKING, Reason(Ground.MOVED, tick.last_moved_seconds or 0.0))
    if tick.no_progress_seconds > 0:
        return _judged(StallVerdict.SUSPECT, *_no_progress(tick))
    return _judged(StallVerdict.WORKING if tick.waiting_seconds > 0 else StallVerdict.IDLE)


def _no_progress(tick: Tick) -> tuple[Reason, Reason]:
    demand = max(tick.demand or 0.0, tick.own_demand or 0.0)
    return Reason(Ground.NO_PROGRESS, tick.no_progress_seconds), Reason(Ground.WAITING, demand)


def _judged(verdict: StallVerdict, *reasons: Reason) -> Judgement:
    return Judgement(verdict, reasons)
