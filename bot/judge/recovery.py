"""What ends a verdict: evidence of its own kind, since a clock that stands at nothing may only have been cut."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from bot.judge.stall import Judgement, StallSettings, StallVerdict
from wire.ticks import ApiState, CanaryOutcome, ProcessState, RunnerState, Tick

_CALM = frozenset({StallVerdict.IDLE, StallVerdict.WORKING})
_MOMENT = timedelta(seconds=1)


class Ending(StrEnum):
    MOVED = "moved"
    COMPLETED = "completed"
    CANARY_OK = "canary_ok"
    NOBODY_WAITS = "nobody_waits"
    RESTS = "rests"
    LOADED = "loaded"
    ANSWERS = "answers"
    READABLE = "readable"
    AS_FAST = "as_fast"


class _Look(msgspec.Struct, frozen=True):
    since: datetime
    before: Tick | None
    tick: Tick
    judgement: Judgement
    settings: StallSettings


def ending_of(
    verdict: StallVerdict,
    since: datetime,
    before: Tick | None,
    tick: Tick,
    judgement: Judgement,
    settings: StallSettings,
) -> Ending | None:
    """What ended the verdict that holds since then; None: nothing did, as far as can be told."""
    look = _Look(since, before, tick, judgement, settings)
    return next((ending for ending in _ENDS[verdict] if _HOLDS[ending](look)), None)


def _moved(look: _Look) -> bool:
    return look.tick.has_moved


def _completed(look: _Look) -> bool:
    was, now = look.before, look.tick
    if was is None or was.epoch != now.epoch or was.completed is None or now.completed is None:
        return False
    return now.completed > was.completed


def _canary_ok(look: _Look) -> bool:
    """Sent and answered after the trouble began."""
    tick = look.tick
    if tick.canary is not CanaryOutcome.OK or tick.canary_seconds_ago is None or tick.canary_timeouts:
        return False
    return tick.taken_at - timedelta(seconds=tick.canary_seconds_ago) > look.since + _MOMENT


def _nobody_waits(look: _Look) -> bool:
    """By somebody independent of the runner, or after a while: the runner's own 0 is published by what may hang."""
    tick = look.tick
    if look.judgement.verdict is not StallVerdict.IDLE or _rests(look):
        return False
    return tick.demand == 0 or (tick.last_moved_seconds or 0.0) >= look.settings.idle_settles_seconds


def _rests(look: _Look) -> bool:
    """It says itself that it sleeps or holds no model, which an API that hangs does not."""
    return look.tick.state in (RunnerState.PAUSED, RunnerState.UNLOADED) and look.tick.paused_seconds == 0


def _loaded(look: _Look) -> bool:
    return look.tick.state is RunnerState.READY and _answers(look)


def _answers(look: _Look) -> bool:
    if look.judgement.verdict not in _CALM:
        return False
    tick = look.tick
    return tick.api is ApiState.OK if tick.api is not None else tick.process is ProcessState.ALIVE


def _readable(look: _Look) -> bool:
    """In two ticks: the clock of the first one may only have been cut."""
    ticks = (look.before, look.tick)
    return all(tick and tick.unreadable_seconds == tick.config_error_seconds == 0 for tick in ticks)


def _as_fast(look: _Look) -> bool:
    ticks = (look.before, look.tick)
    return all(tick and tick.slow_seconds == 0 and tick.epoch == look.tick.epoch for tick in ticks) and any(
        tick and tick.has_moved for tick in ticks
    )


_HOLDS: dict[Ending, Callable[[_Look], bool]] = {
    Ending.MOVED: _moved,
    Ending.COMPLETED: _completed,
    Ending.CANARY_OK: _canary_ok,
    Ending.NOBODY_WAITS: _nobody_waits,
    Ending.RESTS: _rests,
    Ending.LOADED: _loaded,
    Ending.ANSWERS: _answers,
    Ending.READABLE: _readable,
    Ending.AS_FAST: _as_fast,
}
_WORKS_OR_RESTS = (Ending.MOVED, Ending.CANARY_OK, Ending.NOBODY_WAITS, Ending.RESTS)
_ENDS: dict[StallVerdict, tuple[Ending, ...]] = {
    StallVerdict.STALLED: _WORKS_OR_RESTS,
    StallVerdict.UNCERTAIN: _WORKS_OR_RESTS,
    StallVerdict.ERRORING: _WORKS_OR_RESTS,
    StallVerdict.LOAD_STUCK: (Ending.MOVED, Ending.CANARY_OK, Ending.RESTS, Ending.LOADED),
    StallVerdict.DOWN: (Ending.MOVED, Ending.CANARY_OK, Ending.RESTS, Ending.ANSWERS),
    StallVerdict.BLIND: (Ending.READABLE,),
    StallVerdict.WORK_STUCK: (Ending.MOVED, Ending.NOBODY_WAITS),
    StallVerdict.RUNAWAY: (Ending.COMPLETED, Ending.NOBODY_WAITS, Ending.RESTS),
    StallVerdict.DEGRADED: (Ending.AS_FAST, Ending.NOBODY_WAITS, Ending.RESTS),
}
