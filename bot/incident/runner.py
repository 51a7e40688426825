"""What is concluded of a runner, as the finding that its card shows."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from bot.incident.kinds import Kind
from bot.incident.model import Finding, Incident
from bot.judge.runner import Conclusion, Opened, began_at, clock_seconds
from bot.judge.stall import Ground, Judgement, Reason, StallVerdict
from bot.judge.verdict import Presence, Said
from wire.ticks import SignalClass, Tick

RESTARTABLE = frozenset({StallVerdict.STALLED, StallVerdict.UNCERTAIN, StallVerdict.LOAD_STUCK, StallVerdict.ERRORING})
_MOST_WITNESSES = 4


def subject_of(node: str, runner: str) -> str:
    return f"{node}/{runner}"


def opened_of(incident: Incident | None) -> Opened | None:
    """What is said of a runner by its open incident."""
    if incident is None or incident.finding is None:
        return None
    return Opened(StallVerdict(incident.finding.what), incident.finding.since)


def finding_of(node: str, conclusion: Conclusion, said: Finding | None) -> Finding | None:
    """`said` is what the open incident says. None: no news, or nothing to say and nothing to take back."""
    if conclusion.presence is Presence.PRESENT:
        return _present(node, conclusion.tick, conclusion.judgement)
    if conclusion.presence is Presence.ABSENT and said is not None:
        return _over(said, conclusion)
    return None


def not_seen(said: Finding) -> Finding:
    """It cannot be told now whether it still holds."""
    return replace(said, presence=Presence.UNKNOWN)


def not_watched(said: Finding) -> Finding:
    """Its node is seen, and reads this runner no more."""
    return replace(said, presence=Presence.ABSENT, lines=(Said("ending.not_watched"),), last_known=())


def _present(node: str, tick: Tick, judgement: Judgement) -> Finding:
    return Finding(
        kind=Kind.RUNNER,
        subject=subject_of(node, tick.runner),
        presence=Presence.PRESENT,
        what=judgement.verdict,
        since=began_at(tick, judgement),
        title=title(tick, judgement),
        lines=tuple(_lines(tick, judgement)),
    )


def _over(said: Finding, conclusion: Conclusion) -> Finding:
    tick = conclusion.tick
    lines = [Said(f"ending.{conclusion.ending}")]
    lines += _lost(tick.usual_per_hour, said, tick.taken_at)
    return replace(said, presence=Presence.ABSENT, lines=tuple(lines))


# --- the title ------------------------------------------------------------------------------------------------------

_TITLES = {
    Ground.PROCESS_GONE: "process_gone",
    Ground.API_DEAD: "api_dead",
    Ground.CONFIG_ERROR: "config_error",
    Ground.PAUSED_WITH_WORK: "paused",
}


def title(tick: Tick, judgement: Judgement) -> Said:
    """The facts that a lock screen shows."""
    key = _TITLES.get(judgement.reasons[0].ground, str(judgement.verdict))
    is_quiet = judgement.verdict in (StallVerdict.STALLED, StallVerdict.UNCERTAIN)
    if is_quiet and not _waiting(tick):
        key = f"{key}_unanswered" if tick.canary_timeouts else f"{key}_silent"
    return Said(f"title.{key}", _counts(tick), {"quiet": clock_seconds(tick, judgement)})


def _counts(tick: Tick) -> dict[str, str]:
    counts = {"waiting": _waiting(tick) or 0, "timeouts": tick.canary_timeouts, "errors": tick.canary_errors}
    return {name: f"{count:g}" for name, count in counts.items()}


def _waiting(tick: Tick) -> float | None:
    """How many wait, as far as anybody says; None: nobody says so, or it is said that none does."""
    return max(tick.demand or 0.0, tick.own_demand or 0.0) or None


# --- the lines ------------------------------------------------------------------------------------------------------


def _lines(tick: Tick, judgement: Judgement) -> Iterator[Said]:
    yield layers(tick)
    if tick.last_moved_seconds is not None:
        yield Said("runner.moved", seconds={"length": tick.last_moved_seconds})
    yield from _before_and_lost(tick, judgement)
    yield from evidence(tick, judgement)
    yield from _remedies(tick, judgement)


def layers(tick: Tick) -> Said:
    """State, connectivity and work, side by side."""
    return Said("runner.layers", parts=(_process(tick), _api(tick), work(tick)))


def _process(tick: Tick) -> Said:
    return Said(f"process.{tick.process or 'unknown'}")


def _api(tick: Tick) -> Said:
    if tick.api is None:
        return Said("api.unknown")
    milliseconds = "?" if tick.api_milliseconds is None else f"{tick.api_milliseconds:.0f}"
    return Said(f"api.{tick.api}", {"milliseconds": milliseconds, "detail": tick.api_detail or "?"})


def work(tick: Tick) -> Said:
    """Whether results come, and how many wait: which is not said where nobody could tell."""
    waiting, is_known = _waiting(tick), tick.demand is not None or tick.own_demand is not None
    texts, seconds = {"waiting": f"{waiting or 0:g}"}, {"quiet": tick.no_progress_seconds}
    if tick.has_moved:
        return Said("work.moves" if is_known else "work.moves_only", texts)
    if tick.no_progress_seconds:
        by_canary = "work.none_by_canary" if is_known else "work.none_only"
        return Said("work.none" if waiting else by_canary, texts, seconds)
    if tick.waiting_seconds and is_known:
        return Said("work.waits", texts)
    return Said("work.nobody_waits" if is_known else "work.unknown", texts)


def _before_and_lost(tick: Tick, judgement: Judgement) -> Iterator[Said]:
    if not tick.usual_per_hour:
        yield Said("runner.usual_unknown")
        return
    yield Said("runner.usual", {"rate": _number(tick.usual_per_hour)})
    if judgement.verdict in _LOSING and tick.no_progress_seconds:
        yield Said("runner.lost", {"lost": _number(tick.no_progress_seconds / 3600 * tick.usual_per_hour)})


_LOSING = frozenset({*RESTARTABLE, StallVerdict.DOWN})


def _lost(usual_per_hour: float | None, said: Finding, until: datetime) -> list[Said]:
    """In all, once it is over."""
    if usual_per_hour is None or said.what not in _LOSING or not any(line.key == "runner.lost" for line in said.lines):
        return []
    hours = max(until - said.since, timedelta(0)) / timedelta(hours=1)
    return [Said("runner.lost_in_all", {"lost": _number(hours * usual_per_hour)})]


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.1g}"


def evidence(tick: Tick, judgement: Judgement) -> Iterator[Said]:
    """What the verdict rests on, beside its clock."""
    if tick.no_progress_seconds and tick.ticks:
        yield Said("evidence.looks", {"count": str(tick.ticks)}, {"length": tick.no_progress_seconds})
    for reason in judgement.reasons:
        if reason.ground is Ground.WITNESSES:
            yield from _witnesses(tick)
        elif reason.ground not in _IN_TITLE:
            yield _evidence(reason)
    if judgement.verdict is StallVerdict.BLIND and judgement.reasons[0].words:
        yield Said("evidence.unreadable", {"words": judgement.reasons[0].words})


_IN_TITLE = frozenset(
    {
        Ground.NO_PROGRESS,
        Ground.WAITING,
        Ground.API_DEAD,
        Ground.PROCESS_GONE,
        Ground.LOAD_STANDS,
        Ground.PAUSED_WITH_WORK,
        Ground.UNSERVED,
        Ground.NO_COMPLETION,
        Ground.SLOW,
        Ground.UNREADABLE,
        Ground.CONFIG_ERROR,
        Ground.MOVED,
    }
)


def _evidence(reason: Reason) -> Said:
    texts = {"count": f"{reason.value:g}", "words": reason.words or "-"}
    return Said(f"evidence.{reason.ground}", texts, {"length": reason.value})


def _witnesses(tick: Tick) -> Iterator[Said]:
    for witness in tick.witnesses[:_MOST_WITNESSES]:
        yield Said(f"witness.{witness.kind}", {"detail": witness.detail or "-"})


def _remedies(tick: Tick, judgement: Judgement) -> Iterator[Said]:
    """Which remedy has the evidence: a person decides, and does it."""
    if judgement.verdict is StallVerdict.RUNAWAY:
        yield Said("remedy.cancel")
    if judgement.verdict not in RESTARTABLE:
        return
    has_witness = any(reason.ground is Ground.WITNESSES for reason in judgement.reasons)
    if judgement.verdict is StallVerdict.STALLED and (has_witness or _has_broken_part(tick)):
        yield Said("remedy.reboot")
    else:
        yield Said("remedy.restart")


def _has_broken_part(tick: Tick) -> bool:
    """Class Q has no canary: only a broken part speaks for a reboot."""
    return tick.signal_class is SignalClass.Q and tick.witness_ticks > 0
