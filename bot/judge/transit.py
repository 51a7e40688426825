"""How long a heartbeat was on its way: what it says is as old as its sending, not as its arrival."""

import math

import msgspec

from wire.messages import Heartbeat

KEPT_SECONDS = 300.0
KEPT_BOOTS = 3  # beside the one that is heard now


class Transit(msgspec.Struct, frozen=True, gc=False):
    """A node's latest heartbeat. `sent_seconds` is when it was sent, on a clock of the bot's that never stands still.

    `quickest_seconds` is the least by which the bot's clock was ahead of the node's time since boot when a heartbeat
    came, in the last minutes since `since_seconds`, and `quickest_before_seconds` in those before: what comes with more
    was held up by so much. Two clocks that drift, or a node that was paused, are forgotten with them.
    """

    boot_id: str
    spool_epoch: str
    uptime_seconds: float | None
    sent_seconds: float
    since_seconds: float
    quickest_seconds: float = math.inf
    quickest_before_seconds: float = math.inf


def arrived(before: Transit | None, heartbeat: Heartbeat, now_seconds: float) -> Transit:
    """`now_seconds` is the bot's clock. Of an agent that does not tell its time since boot the delay is not known."""
    life, uptime = (heartbeat.boot_id, heartbeat.spool_epoch), heartbeat.uptime_seconds
    if uptime is None:
        return Transit(*life, None, now_seconds, now_seconds)
    ahead, since = now_seconds - uptime, now_seconds
    quickest = earlier = math.inf
    if before is not None and before.boot_id == heartbeat.boot_id:
        quickest, earlier, since = before.quickest_seconds, before.quickest_before_seconds, before.since_seconds
    if now_seconds - since > KEPT_SECONDS:
        quickest, earlier, since = math.inf, quickest, now_seconds
    quickest = min(quickest, ahead)
    return Transit(*life, uptime, uptime + min(quickest, earlier), since, quickest, earlier)


def is_overtaken(before: Transit | None, heartbeat: Heartbeat) -> bool:
    """A later one of the same agent came first, by another connection: this one says what is no longer so."""
    if before is None or before.uptime_seconds is None or heartbeat.uptime_seconds is None:
        return False
    is_same = (before.boot_id, before.spool_epoch) == (heartbeat.boot_id, heartbeat.spool_epoch)
    return is_same and heartbeat.uptime_seconds < before.uptime_seconds
