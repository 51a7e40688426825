"""A person's claim: this GPU is mine until then. While it holds, the GPU is never called free."""

from datetime import datetime, time, timedelta, tzinfo

import msgspec

ASK_BEFORE = timedelta(minutes=15)
KEEP_FOR = timedelta(hours=4)
_MORNING = time(9)


class Claim(msgspec.Struct, frozen=True):
    """`id` is 0 until it is saved. `by` is a Slack user id, or `host:<user>` of the bot's own host.

    `asked_at` is when the holder was asked about its end; None: not yet. `asks` counts these questions.
    """

    node: str
    gpu_uuid: str
    gpu_index: int
    by: str
    since: datetime
    until: datetime
    reason: str = ""
    token: str = ""
    asked_at: datetime | None = None
    asks: int = 0
    id: int = 0

    def holds(self, now: datetime) -> bool:
        return now < self.until


def is_to_ask(claim: Claim, now: datetime) -> bool:
    """A quarter of its time before its end, 15 minutes at most."""
    before = min(ASK_BEFORE, (claim.until - claim.since) / 4)
    return claim.asked_at is None and claim.until - before <= now < claim.until


def kept_until(claim: Claim) -> datetime:
    return claim.until + KEEP_FOR


def tomorrow(now: datetime, zone: tzinfo) -> datetime:
    """09:00 of the next day in the zone."""
    day = now.astimezone(zone).date() + timedelta(days=1)
    return datetime.combine(day, _MORNING, zone).astimezone(now.tzinfo)
