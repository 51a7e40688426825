"""Slack's rate limits by method; docs.slack.dev/apis/web-api/rate-limits."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Limit:
    """`burst` calls at once, then `per_minute` on average."""

    per_minute: float
    burst: int


TIER_2 = Limit(20, 20)
TIER_3 = Limit(50, 50)
TIER_4 = Limit(100, 100)
# Slack says "about 1 per second per channel, short bursts above it" and "several hundred per minute" for all;
# it publishes no size of a burst: 5 is a guess on the careful side.
POST_PER_CHANNEL = Limit(60, 5)
POST_ALL = Limit(300, 300)

LIMITS = {
    "conversations.list": TIER_2,
    "users.list": TIER_2,
    "usergroups.list": TIER_2,
    "usergroups.users.list": TIER_2,
    "apps.connections.open": TIER_3,
    "chat.delete": TIER_3,
    "chat.update": TIER_3,
    "conversations.history": TIER_3,
    "conversations.info": TIER_3,
    "conversations.open": TIER_3,
    "conversations.replies": TIER_3,
    "reactions.add": TIER_3,
    "chat.postEphemeral": TIER_4,
    "conversations.members": TIER_4,
    "files.completeUploadExternal": TIER_4,
    "files.getUploadURLExternal": TIER_4,
    "users.info": TIER_4,
    "views.open": TIER_4,
    "views.publish": TIER_4,
    "views.push": TIER_4,
    "views.update": TIER_4,
}


class RateLimits:
    """Token buckets; `enabled` can be switched at any time."""

    def __init__(self, now: Callable[[], datetime], enabled: bool) -> None:
        self.enabled = enabled
        self._now = now
        self._buckets: dict[tuple[str, str], tuple[float, datetime]] = {}

    def seconds_to_wait(self, method: str, channel: str) -> int:
        """0 when the call may pass (it is then counted), else whole seconds for Retry-After."""
        if not self.enabled:
            return 0
        limits = [(("chat.postMessage", channel), POST_PER_CHANNEL), (("chat.postMessage", ""), POST_ALL)]
        if method != "chat.postMessage":
            limits = [((method, ""), LIMITS[method])] if method in LIMITS else []
        waits = [self._wait_seconds(key, limit) for key, limit in limits]
        if any(waits):
            return math.ceil(max(waits))
        for key, limit in limits:
            self._buckets[key] = (self._level(key, limit) - 1, self._now())
        return 0

    def _wait_seconds(self, key: tuple[str, str], limit: Limit) -> float:
        missing = 1 - self._level(key, limit)
        return max(0.0, missing * 60 / limit.per_minute)

    def _level(self, key: tuple[str, str], limit: Limit) -> float:
        level, since = self._buckets.get(key, (float(limit.burst), self._now()))
        return min(float(limit.burst), level + (self._now() - since).total_seconds() * limit.per_minute / 60)
