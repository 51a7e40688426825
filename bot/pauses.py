"""What of Slack is left alone for a while, and since when: the whole of it, one channel or one method."""

import random
from collections.abc import Mapping

import msgspec

LONGEST_PAUSE_SECONDS = 60.0
LONG_PAUSE_SECONDS = 300.0  # nobody mends a token or a channel within seconds


class Trouble(msgspec.Struct, frozen=True):
    """`until` and `since` are seconds of the monotonic clock."""

    message: str
    since: float
    until: float
    failures: int


class Pauses:
    """Troubles by name. `now` is always the monotonic clock."""

    def __init__(self) -> None:
        self.troubles: dict[str, Trouble] = {}

    def seconds_left(self, name: str, now: float) -> float:
        """0 when nothing keeps us from trying."""
        trouble = self.troubles.get(name)
        return max(0.0, trouble.until - now) if trouble else 0.0

    def failed(self, name: str, message: str, now: float, pause_seconds: float | None = None) -> bool:
        """Begins the next pause, of `pause_seconds` or longer with every failure; True when this trouble is new."""
        before = self.troubles.get(name)
        failures = before.failures + 1 if before else 1
        longest = min(LONGEST_PAUSE_SECONDS, 2.0 ** min(failures - 1, 16))
        pause = random.uniform(longest / 2, longest) if pause_seconds is None else pause_seconds
        since = before.since if before else now
        self.troubles[name] = Trouble(message, since, now + pause, failures)
        return before is None

    def resumed(self, name: str, message: str, now: float) -> None:
        """A trouble from before the last start: it may be tried at once."""
        self.troubles[name] = Trouble(message, now, now, 1)

    def worked(self, name: str, now: float) -> float | None:
        """Ends the trouble; how many seconds it had lasted, None when there was none."""
        trouble = self.troubles.pop(name, None)
        return now - trouble.since if trouble else None


class Pace(msgspec.Struct, frozen=True):
    """So many calls at once, then `per_minute` on average."""

    per_minute: float
    burst: int


class Paces:
    """Keeps our own calls below Slack's limits, so that the next urgent one never waits for a refusal's sake."""

    def __init__(self, paces: Mapping[str, Pace]) -> None:
        self._paces = paces
        self._left: dict[str, tuple[float, float]] = {}

    def seconds_left(self, name: str, now: float) -> float:
        """0 when one may be made. `now` is always the monotonic clock."""
        pace = self._paces.get(name)
        return max(0.0, 1 - self._level(name, pace, now)) * 60 / pace.per_minute if pace else 0.0

    def spend(self, name: str, now: float) -> None:
        if pace := self._paces.get(name):
            self._left[name] = (max(0.0, self._level(name, pace, now) - 1), now)

    def _level(self, name: str, pace: Pace, now: float) -> float:
        level, since = self._left.get(name, (float(pace.burst), now))
        return min(float(pace.burst), level + (now - since) * pace.per_minute / 60)
