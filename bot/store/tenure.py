"""One bot's time at work: from when it took the lease until that runs out, is lost or is given back."""

from bot import clock


class Tenure:
    """`fence` is its number. Whatever leaves asks `is_held` right before, by a clock that never sleeps."""

    def __init__(self, fence: int, until_seconds: float | None) -> None:
        """`until_seconds` of `clock.boot_seconds`; None: it does not run out."""
        self.fence = fence
        self.is_unsure = False
        """Something of ours may still be on its way to Slack: the next bot begins only when the lease runs out."""
        self._until = until_seconds
        self._is_over = False

    def is_held(self) -> bool:
        return not self._is_over and (self._until is None or clock.boot_seconds() < self._until)

    def extend(self, until_seconds: float | None) -> None:
        self._until = until_seconds

    def end(self) -> None:
        """Nothing may leave any more."""
        self._is_over = True
