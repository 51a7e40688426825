"""What the bot's parts did, and when: written by them as they work, read by whoever asks how it goes."""

from dataclasses import dataclass, field
from datetime import datetime

from bot import clock


@dataclass
class Activity:
    """Counts begin at this bot's start; `_seconds` are instants on the monotonic clock."""

    windows_stored: int = 0
    windows_known_already: int = 0
    windows_rejected: int = 0
    windows_over_limit: int = 0
    heartbeats_heard: int = 0
    heartbeats_refused: int = 0
    heartbeats_over_limit: int = 0
    began_seconds: float = field(default_factory=clock.monotonic_seconds)
    read_seconds: float | None = None
    judged_seconds: float | None = None
    newest_taken_at: datetime | None = None
    """When the stream got the newest window that was taken, by the bus's clock."""

    def read(self) -> None:
        self.read_seconds = clock.monotonic_seconds()

    def judged(self) -> None:
        self.judged_seconds = clock.monotonic_seconds()

    def took(self, stored: int, known_already: int, rejected: int, newest_at: datetime) -> None:
        self.windows_stored += stored
        self.windows_known_already += known_already
        self.windows_rejected += rejected
        self.newest_taken_at = newest_at

    def seconds_since(self, instant: float | None) -> float:
        """Since then, or since the start for what was never done."""
        return clock.monotonic_seconds() - (self.began_seconds if instant is None else instant)
