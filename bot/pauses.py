"""What of Slack is left alone for a while, and since when: the whole of it, one channel or one method."""

import random

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
        longest = min(LONGEST_PAUSE_SECONDS, 2.0 ** min(failures, 16))
        pause = random.uniform(longest / 2, longest) if pause_seconds is None else pause_seconds
        since = before.since if before else now
        self.troubles[name] = Trouble(message, since, now + pause, failures)
        return before is None

    def worked(self, name: str, now: float) -> float | None:
        """Ends the trouble; how many seconds it had lasted, None when there was none."""
        trouble = self.troubles.pop(name, None)
        return now - trouble.since if trouble else None
