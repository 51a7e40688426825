"""How the agent is, as one value; and what of it means that it does not work, or hangs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from agent.observe import Latest
from agent.spool import Spool, SpoolError
from wire.link import Link


class Vitals(msgspec.Struct, frozen=True):
    """Ages are in seconds. None: it cannot be told, or nothing was sampled yet. `gpus` counts verdicts."""

    is_bus_connected: bool
    sample_age_seconds: float | None
    sample_failed: bool = False
    spool_reports: int | None = None
    spool_bytes: int | None = None
    gpus: Mapping[str, int] = {}


def why_hung(vitals: Vitals, running_seconds: float, patience_seconds: float) -> str | None:
    """A reason to start it anew: no sample was even tried. A driver that fails is no such reason."""
    age_seconds = running_seconds if vitals.sample_age_seconds is None else vitals.sample_age_seconds
    return f"no sample was taken for {age_seconds:.0f} s" if age_seconds > patience_seconds else None


def why_not_working(vitals: Vitals) -> Iterator[str]:
    """Sentences, none when GPUs are read and the bus hears of them."""
    if vitals.sample_age_seconds is None:
        yield "nothing was sampled yet"
    if vitals.sample_failed:
        yield "the latest sample failed: see gpu-oncall-agent check"
    if not vitals.is_bus_connected:
        yield "the bus cannot be reached: reports wait in the spool"
    if vitals.spool_reports is None:
        yield "the spool does not answer"


class Gatherer:
    """Asks the parts. `latest` gives the sampler's latest sample, `now_seconds` the time since boot."""

    def __init__(
        self,
        link: Link,
        spool: Spool,
        latest: Callable[[], Latest | None],
        now_seconds: Callable[[], float],
        patience_seconds: float,
    ) -> None:
        self._link, self._spool, self._latest, self._now_seconds = link, spool, latest, now_seconds
        self._patience_seconds = patience_seconds
        self._began_seconds = now_seconds()

    async def vitals(self) -> Vitals:
        waiting, latest = await self._waiting(), self._latest()
        return Vitals(
            is_bus_connected=self._link.is_connected,
            sample_age_seconds=None if latest is None else self._now_seconds() - latest.began_seconds,
            sample_failed=latest is not None and bool(latest.sample.errors),
            spool_reports=waiting[0] if waiting else None,
            spool_bytes=waiting[1] if waiting else None,
            gpus=Counter(gpu.verdict.value for gpu in latest.sample.gpus) if latest else {},
        )

    async def _waiting(self) -> tuple[int, int] | None:
        try:
            return await self._spool.waiting()
        except SpoolError:
            return None

    def hung(self) -> str | None:
        """Without waiting for anybody, for systemd."""
        latest = self._latest()
        age_seconds = None if latest is None else self._now_seconds() - latest.began_seconds
        vitals = Vitals(self._link.is_connected, age_seconds)
        return why_hung(vitals, self._now_seconds() - self._began_seconds, self._patience_seconds)
