"""What a runner usually does: its gaps between progress, and its rate, both only while work was there."""

import math

import msgspec

BUCKET_SECONDS = 30.0
MOST_GAPS = 2000  # then every count is halved: the past fades
RECENT_SECONDS = 300.0
USUAL_SECONDS = 7200.0
RESTS_ON_SECONDS = 1800.0  # a rate that rests on less is not called usual
SLOW_SHARE = 0.2


class Gaps(msgspec.Struct, frozen=True):
    """How often which gap was seen: counts by upper edge in units of 30 s."""

    counts: dict[int, int] = {}

    @property
    def number(self) -> int:
        return sum(self.counts.values())

    def p99_seconds(self) -> float | None:
        """The 99th percentile, rounded up to 30 s; None before the first gap."""
        wanted, seen = math.ceil(self.number * 0.99), 0
        for edge in sorted(self.counts):
            seen += self.counts[edge]
            if seen >= wanted:
                return edge * BUCKET_SECONDS
        return None

    def with_gap(self, seconds: float) -> "Gaps":
        edge = max(1, math.ceil(seconds / BUCKET_SECONDS - 1e-6))
        counts = self.counts if self.number < MOST_GAPS else _halved(self.counts)
        return Gaps({**counts, edge: counts.get(edge, 0) + 1})


def _halved(counts: dict[int, int]) -> dict[int, int]:
    """Rounded up, so that one long gap is not forgotten for many short ones at once."""
    return {edge: math.ceil(count / 2) for edge, count in counts.items()}


class Rate(msgspec.Struct, frozen=True):
    """A counter's rate per second, recent and usual, as means that fade. None before the first interval."""

    recent: float | None = None
    usual: float | None = None
    rests_on_seconds: float = 0.0

    @property
    def usual_per_hour(self) -> float | None:
        return None if self.usual is None or self.rests_on_seconds < RESTS_ON_SECONDS else self.usual * 3600

    @property
    def is_slow(self) -> bool:
        """Under a fifth of the usual; False as long as nothing is called usual."""
        if self.usual is None or self.recent is None or self.rests_on_seconds < RESTS_ON_SECONDS:
            return False
        return self.recent < SLOW_SHARE * self.usual

    def with_interval(self, amount: float, seconds: float) -> "Rate":
        """A slow interval does not become usual."""
        rate = amount / seconds
        recent = _faded(self.recent, rate, seconds, RECENT_SECONDS)
        after = Rate(recent, self.usual, self.rests_on_seconds)
        if after.is_slow:
            return after
        return Rate(recent, _faded(self.usual, rate, seconds, USUAL_SECONDS), self.rests_on_seconds + seconds)


def _faded(mean: float | None, value: float, seconds: float, constant_seconds: float) -> float:
    if mean is None:
        return value
    share = 1.0 - math.exp(-seconds / constant_seconds)
    return mean + share * (value - mean)
