"""What cannot be seen of a node (lost, unreadable, hidden, wrong clock, two agents), and GPUs that are gone or sick."""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from bot.judge.pulse import Pulse
from bot.judge.track import NodeTrack
from bot.judge.verdict import Presence, Said
from wire.messages import Heartbeat, Verdict
from wire.reasons import Reason, ReasonCode

MOST_LINES = 8


class PresenceRule(msgspec.Struct, frozen=True):
    """The thresholds, in seconds of the bot's monotonic clock."""

    lost_after_seconds: float = 180.0
    after_start_seconds: float = 90.0  # more, for a node that was not heard since the bot began to listen
    heard_within_seconds: float = 60.0
    clock_wrong_by_seconds: float = 60.0
    two_agents_within_seconds: float = 600.0
    samples: int = 2
    backlog_after_seconds: float = 120.0
    settles_seconds: float = 300.0  # a little more than a node that was never heard has until it is lost


class View(msgspec.Struct, frozen=True):
    """One node as the bot sees it now. `listening_seconds`: since when the bot hears the bus without a break; None: it
    does not, so that silence says nothing. None: no heartbeat since this bot started; no window ever. `began_seconds`
    is when this bot began to work.
    """

    node: str
    now: datetime
    now_seconds: float
    listening_seconds: float | None
    pulse: Pulse | None
    track: NodeTrack | None
    began_seconds: float = -math.inf


class Seen(msgspec.Struct, frozen=True):
    """What one rule says of a node; `since` and the sentences only for PRESENT."""

    presence: Presence
    since: datetime | None = None
    title: Said | None = None
    lines: tuple[Said, ...] = ()


UNKNOWN, ABSENT = Seen(Presence.UNKNOWN), Seen(Presence.ABSENT)


def is_too_early(view: View, rule: PresenceRule) -> bool:
    """Whether "unknown" may only mean that this bot has just begun: then what the one before it said still stands."""
    if view.pulse is not None:  # a clock wants three heartbeats, everything else fewer
        return view.now_seconds - view.pulse.first_seconds <= rule.after_start_seconds
    return view.now_seconds - view.began_seconds <= rule.settles_seconds


def lost(view: View, rule: PresenceRule) -> Seen:
    pulse = view.pulse
    if view.listening_seconds is None:
        return UNKNOWN
    heard_seconds = pulse.heard_seconds if pulse else view.listening_seconds
    silent = view.now_seconds - max(heard_seconds, view.listening_seconds)
    limit = rule.lost_after_seconds + (0.0 if pulse else rule.after_start_seconds)
    if silent < limit:
        return ABSENT if pulse and view.now_seconds - pulse.heard_seconds <= rule.heard_within_seconds else UNKNOWN
    since = pulse.heard_at if pulse else view.now - timedelta(seconds=silent)
    line = Said("evidence.silent" if pulse else "evidence.never_heard", instants={"at": since})
    title = Said("title.node_lost", seconds={"length": (view.now - since).total_seconds()})
    return Seen(Presence.PRESENT, since, title, (line,))


def reading_broken(view: View, rule: PresenceRule) -> Seen:
    track = view.track
    if not _is_heard(view, rule) or track is None or track.newest < 0:
        return UNKNOWN
    if track.newest not in track.broken:
        return ABSENT
    if track.newest - 1 not in track.broken:
        return UNKNOWN
    windows = next(count for count in range(1, len(track.broken) + 2) if track.newest - count not in track.broken)
    since = view.now - timedelta(seconds=windows * track.window_seconds)
    title = Said("title.reading_broken", seconds={"length": windows * track.window_seconds})
    return Seen(Presence.PRESENT, since, title, _reasons(track.errors))


def processes_hidden(view: View, rule: PresenceRule) -> Seen:
    pulse = view.pulse
    if pulse is None or not _is_heard(view, rule) or pulse.heartbeat.errors or not pulse.heartbeat.gpus:
        return UNKNOWN
    if pulse.hidden < rule.samples:
        return UNKNOWN if pulse.hidden else ABSENT
    codes = (ReasonCode.PROCESS_VIEW, ReasonCode.PROCESSES_UNREADABLE)
    return Seen(Presence.PRESENT, view.now, Said("title.processes_hidden"), _reasons_of(pulse.heartbeat, codes))


def clock_wrong(view: View, rule: PresenceRule) -> Seen:
    """A heartbeat may be long on its way, which looks like a clock that is behind: the least of three counts."""
    pulse = view.pulse
    if pulse is None or not _is_heard(view, rule):
        return UNKNOWN
    behind, ahead = min(pulse.offsets), -max(pulse.offsets)
    if behind <= rule.clock_wrong_by_seconds and ahead <= rule.clock_wrong_by_seconds:
        return ABSENT
    if len(pulse.offsets) < 3:
        return UNKNOWN
    key, seconds = ("behind", behind) if behind > ahead else ("ahead", ahead)
    line = Said(f"evidence.clock_{key}", seconds={"length": seconds})
    return Seen(Presence.PRESENT, view.now, Said("title.clock_wrong", seconds={"length": seconds}), (line,))


def two_agents(view: View, rule: PresenceRule) -> Seen:
    """A boot or a spool that comes back after another one: an agent that was started anew never does that."""
    pulse = view.pulse
    if pulse is None or not _is_heard(view, rule):
        return UNKNOWN
    names = [life.name for life in pulse.lives]
    returned = [life.since_seconds for i, life in enumerate(pulse.lives) if life.name in names[:i]]
    if returned and view.now_seconds - returned[-1] <= rule.two_agents_within_seconds:
        line = Said("evidence.two_agents", texts={"count": str(len(set(names)))})
        return Seen(Presence.PRESENT, view.now, Said("title.two_agents"), (line,))
    is_watched = view.now_seconds - pulse.first_seconds > rule.two_agents_within_seconds
    return ABSENT if is_watched else UNKNOWN


def gpu_gone(view: View, rule: PresenceRule) -> Seen:
    pulse = view.pulse
    if pulse is None or not _is_heard(view, rule):
        return UNKNOWN
    missing = [error for error in pulse.heartbeat.errors if error.code is ReasonCode.GPU_MISSING]
    if pulse.gone >= rule.samples and missing:
        title = Said("title.gpu_gone", texts={"count": str(len(missing))})
        return Seen(Presence.PRESENT, view.now, title, _reasons(missing))
    return UNKNOWN if pulse.gone or pulse.heartbeat.errors or not pulse.heartbeat.gpus else ABSENT


def gpu_sick(view: View, rule: PresenceRule) -> Seen:
    pulse = view.pulse
    if pulse is None or not _is_heard(view, rule) or pulse.heartbeat.errors or not pulse.heartbeat.gpus:
        return UNKNOWN
    sick = [gpu for gpu in pulse.heartbeat.gpus if pulse.sick.get(gpu.uuid, 0) >= rule.samples]
    if not sick:
        return UNKNOWN if pulse.sick else ABSENT
    title = Said("title.gpu_sick", texts={"indexes": ", ".join(str(gpu.index) for gpu in sick)})
    lines = [
        Said("evidence.gpu_sick", texts={"index": str(gpu.index), "uuid": gpu.uuid, "action": one.detail})
        for gpu in sick
        for one in gpu.reasons
        if one.code is ReasonCode.RECOVERY_ACTION
    ]
    return Seen(Presence.PRESENT, view.now, title, tuple(lines[:MOST_LINES]))


RULES: dict[str, Callable[[View, PresenceRule], Seen]] = {
    "node_lost": lost,
    "reading_broken": reading_broken,
    "processes_hidden": processes_hidden,
    "clock_wrong": clock_wrong,
    "two_agents": two_agents,
    "gpu_gone": gpu_gone,
    "gpu_sick": gpu_sick,
}


def last_known(view: View) -> tuple[Said, ...]:
    """What the node was doing when it was seen last."""
    lines = []
    if view.track is not None and view.track.gpus:
        verdicts = [gpu.verdict for gpu in view.track.gpus.values()]
        closed_at = max(gpu.newest_closed_at for gpu in view.track.gpus.values())
        counts = {one.value: str(verdicts.count(one)) for one in Verdict}
        lines.append(Said("known.gpus", texts=counts, instants={"at": closed_at}))
    if view.pulse is not None:
        lines += [_runner(name, moved) for name, moved in _runners(view.pulse.heartbeat)]
    return tuple(lines[:MOST_LINES])


def _runners(heartbeat: Heartbeat) -> Iterator[tuple[str, float | None]]:
    for tick in heartbeat.runners:
        yield tick.runner, tick.last_moved_seconds


def _runner(name: str, last_moved_seconds: float | None) -> Said:
    if last_moved_seconds is None:
        return Said("known.runner", texts={"runner": name})
    return Said("known.runner_moved", texts={"runner": name}, seconds={"length": last_moved_seconds})


def _is_heard(view: View, rule: PresenceRule) -> bool:
    return view.pulse is not None and view.now_seconds - view.pulse.heard_seconds <= rule.heard_within_seconds


def _reasons(reasons: Iterable[Reason]) -> tuple[Said, ...]:
    distinct = dict.fromkeys((reason.code, reason.detail) for reason in reasons)
    return tuple(Said(f"reason.{code}", texts={"detail": detail}) for code, detail in distinct)[:MOST_LINES]


def _reasons_of(heartbeat: Heartbeat, codes: tuple[ReasonCode, ...]) -> tuple[Said, ...]:
    return _reasons(reason for gpu in heartbeat.gpus for reason in gpu.reasons if reason.code in codes)
