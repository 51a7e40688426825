"""The ticks of one runner in their order -> what may be said of it now; nothing is confirmed by one tick alone."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from bot.judge.recovery import Ending, ending_of
from bot.judge.stall import DEFAULTS, HARMLESS, Ground, Judgement, StallSettings, StallVerdict, judge
from bot.judge.verdict import Presence
from wire.ticks import Tick

LONGEST_STEP_TICKS = 20  # further apart, two ticks are not one after the other: whole minutes of heartbeats were lost


class Pending(StrEnum):
    """Why a verdict that a tick supports is not said yet."""

    FIRST_TICK = "first_tick"
    CLOCK_BEGAN = "clock_began"


class Opened(msgspec.Struct, frozen=True):
    """What is said of the runner already."""

    verdict: StallVerdict
    since: datetime


class Conclusion(msgspec.Struct, frozen=True):
    """UNKNOWN: no news. What is said stays, and nothing new is said."""

    presence: Presence
    tick: Tick
    judgement: Judgement
    ending: Ending | None = None
    pending: Pending | None = None


def conclude(before: Tick | None, tick: Tick, opened: Opened | None, settings: StallSettings = DEFAULTS) -> Conclusion:
    """`before` is the tick before that was heard; `opened` None: nothing is said of the runner."""
    judgement = judge(tick, settings)
    pending = None if judgement.verdict in HARMLESS else _pending(before, tick, judgement)
    if opened is not None:
        return _of_opened(before, tick, opened, judgement, pending, settings)
    if judgement.verdict in HARMLESS:
        return Conclusion(Presence.ABSENT, tick, judgement)
    return Conclusion(Presence.UNKNOWN if pending else Presence.PRESENT, tick, judgement, pending=pending)


def _of_opened(
    before: Tick | None,
    tick: Tick,
    opened: Opened,
    judgement: Judgement,
    pending: Pending | None,
    settings: StallSettings,
) -> Conclusion:
    """What is as bad or worse takes the place of what is said; what is milder only once that has ended."""
    is_milder = _RANK[judgement.verdict] < _RANK[opened.verdict]
    if not is_milder:
        return Conclusion(Presence.UNKNOWN if pending else Presence.PRESENT, tick, judgement, pending=pending)
    ending = ending_of(opened.verdict, opened.since, before, tick, judgement, settings)
    return Conclusion(Presence.ABSENT if ending else Presence.UNKNOWN, tick, judgement, ending, pending)


_RANK = {verdict: rank for rank, verdict in enumerate(StallVerdict)}  # from harmless to bad, as they are written


# --- two ticks that agree -------------------------------------------------------------------------------------------

_CLOCKS = {
    Ground.NO_PROGRESS: "no_progress_seconds",
    Ground.CANARY_ERRORS: "error_seconds",
    Ground.API_DEAD: "api_dead_seconds",
    Ground.PROCESS_GONE: "process_gone_seconds",
    Ground.LOAD_STANDS: "loading_seconds",
    Ground.PAUSED_WITH_WORK: "paused_seconds",
    Ground.UNSERVED: "unserved_seconds",
    Ground.NO_COMPLETION: "no_completion_seconds",
    Ground.SLOW: "slow_seconds",
    Ground.UNREADABLE: "unreadable_seconds",
    Ground.CONFIG_ERROR: "config_error_seconds",
}


def clock_seconds(tick: Tick, judgement: Judgement) -> float:
    """The clock that a verdict which people hear of rests on."""
    name = next(_CLOCKS[reason.ground] for reason in judgement.reasons if reason.ground in _CLOCKS)
    return getattr(tick, name) or 0.0


def began_at(tick: Tick, judgement: Judgement) -> datetime:
    """When that clock began, by the node's wall clock."""
    return tick.taken_at - timedelta(seconds=clock_seconds(tick, judgement))


def _pending(before: Tick | None, tick: Tick, judgement: Judgement) -> Pending | None:
    """None: the tick before agrees. In it, too, this clock was running, and since then it did not jump."""
    if before is None:
        return Pending.FIRST_TICK
    step_seconds = tick.at_seconds - before.at_seconds
    if not 0 < step_seconds <= LONGEST_STEP_TICKS * tick.tick_seconds:
        return Pending.FIRST_TICK
    was_seconds, is_seconds = clock_seconds(before, judgement), clock_seconds(tick, judgement)
    has_jumped = not was_seconds <= is_seconds <= was_seconds + step_seconds + tick.tick_seconds
    return Pending.CLOCK_BEGAN if was_seconds == 0.0 or has_jumped else None


# --- a label beside GPU windows -------------------------------------------------------------------------------------

_WITHOUT_WORK = frozenset({StallVerdict.STALLED, StallVerdict.UNCERTAIN})


def busy_without_work(ticks: Iterable[Tick], settings: StallSettings = DEFAULTS) -> Tick | None:
    """The latest tick in which a runner's GPUs were busy while it did nothing. For people: no decision rests on it."""
    found = [tick for tick in ticks if (tick.gpu_utilization_percent or 0) > settings.gpu_quiet_percent]
    return next((tick for tick in reversed(found) if judge(tick, settings).verdict in _WITHOUT_WORK), None)
