"""What the heartbeats of one node came to so far, folded one by one; all times are the bot's monotonic clock."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from wire.messages import Heartbeat
from wire.reasons import ReasonCode

KEPT_OFFSETS = 3
KEPT_LIVES = 6
_HIDDEN = (ReasonCode.PROCESS_VIEW, ReasonCode.PROCESSES_UNREADABLE)


class Life(msgspec.Struct, frozen=True, gc=False):
    """One boot with one spool of a node's agent, and when its heartbeats began to come."""

    name: str
    since_seconds: float


class Pulse(msgspec.Struct, frozen=True, gc=False):
    """`gone`, `hidden` and `sick` (by UUID) count samples in a row that show it.

    `sampled_seconds` is when the latest sample was begun, so that one that is sent twice counts once. `offsets` are how
    far the node's clock was behind the bot's in the latest heartbeats, with the time that they took: in seconds,
    negative for a clock that is ahead. `lives` are the latest, in the order in which heartbeats changed to them.
    """

    heartbeat: Heartbeat
    heard_seconds: float
    heard_at: datetime
    first_seconds: float
    sampled_seconds: float
    gone: int = 0
    hidden: int = 0
    sick: Mapping[str, int] = {}
    offsets: tuple[float, ...] = ()
    lives: tuple[Life, ...] = ()


def heard(before: Pulse | None, heartbeat: Heartbeat, monotonic_seconds: float, at: datetime) -> Pulse:
    """The pulse after one more heartbeat; `at` is the bot's wall clock, for comparing the node's with it."""
    sampled_seconds = monotonic_seconds - max((gpu.age_seconds for gpu in heartbeat.gpus), default=0.0)
    is_new = before is None or sampled_seconds > before.sampled_seconds + _apart(heartbeat)
    counts = _counted(before, heartbeat) if is_new else _kept(before)
    offset = (at - heartbeat.sent_at).total_seconds()
    return Pulse(
        heartbeat=heartbeat,
        heard_seconds=monotonic_seconds,
        heard_at=at,
        first_seconds=before.first_seconds if before else monotonic_seconds,
        sampled_seconds=sampled_seconds if is_new or before is None else before.sampled_seconds,
        gone=counts[0],
        hidden=counts[1],
        sick=counts[2],
        offsets=((*before.offsets, offset)[-KEPT_OFFSETS:] if before else (offset,)),
        lives=_lives(before, f"{heartbeat.boot_id} {heartbeat.spool_epoch}", monotonic_seconds),
    )


def _apart(heartbeat: Heartbeat) -> float:
    """Two samples are further apart than this: 2 s of a window of 5 minutes, less where a demo's are short."""
    return min(2.0, heartbeat.window_seconds / 150)


_Counts = tuple[int, int, Mapping[str, int]]


def _kept(before: Pulse | None) -> _Counts:
    return (before.gone, before.hidden, before.sick) if before else (0, 0, {})


def _counted(before: Pulse | None, heartbeat: Heartbeat) -> _Counts:
    gone, hidden, sick = _kept(before)
    if any(error.code is ReasonCode.GPU_MISSING for error in heartbeat.errors):
        return gone + 1, hidden, sick
    if heartbeat.errors or not heartbeat.gpus:  # nothing could be told by this sample
        return gone, hidden, sick
    is_hidden = any(reason.code in _HIDDEN for gpu in heartbeat.gpus for reason in gpu.reasons)
    now_sick = [
        gpu.uuid for gpu in heartbeat.gpus if any(one.code is ReasonCode.RECOVERY_ACTION for one in gpu.reasons)
    ]
    return 0, hidden + 1 if is_hidden else 0, {uuid: sick.get(uuid, 0) + 1 for uuid in now_sick}


def _lives(before: Pulse | None, name: str, monotonic_seconds: float) -> tuple[Life, ...]:
    lives = before.lives if before else ()
    if lives and lives[-1].name == name:
        return lives
    return (*lives, Life(name, monotonic_seconds))[-KEPT_LIVES:]
