"""The runner's GPUs between two ticks, out of the samples that are taken anyway."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

import msgspec
from msgspec.structs import replace

from agent.runner_reading import GpuLook
from agent.verdicts import GpuSample, Sample
from wire.reasons import Reason, ReasonCode
from wire.ticks import Witness, WitnessKind, sentence

KEPT_SECONDS = 180.0


class _Seen(msgspec.Struct, frozen=True):
    at_seconds: float
    sample: Sample


class GpuWatch:
    """Looks over the sampler's shoulder. A sweep that ran out of its time is remembered as what it is."""

    def __init__(self, take_sample: Callable[[], Awaitable[Sample]], now_seconds: Callable[[], float]) -> None:
        self.is_asked: Callable[[str], bool] = lambda uuid: False  # whether a canary is on its way to this GPU's runner
        self._take_sample, self._now_seconds = take_sample, now_seconds
        self._seen: deque[_Seen] = deque()

    async def sample(self) -> Sample:
        """In the place of the wrapped function."""
        try:
            sample = await self._take_sample()
        except asyncio.CancelledError:  # the sampler's deadline, or the end of the agent
            self._keep(Sample((), (Reason(ReasonCode.SAMPLE_ERROR, f"the sweep {_LATE_WORDS[0]} its deadline"),)))
            raise
        sample = self._marked(sample)
        self._keep(sample)
        return sample

    def _marked(self, sample: Sample) -> Sample:
        if not any(self.is_asked(gpu.uuid) for gpu in sample.gpus):
            return sample
        return replace(sample, gpus=tuple(replace(gpu, beside_canary=self.is_asked(gpu.uuid)) for gpu in sample.gpus))

    def look(self, gpus: Literal["all"] | list[str], since_seconds: float) -> GpuLook:
        samples = [seen.sample for seen in self._seen if seen.at_seconds > since_seconds]
        ours = [[gpu for gpu in sample.gpus if gpus == "all" or gpu.uuid in gpus] for sample in samples]
        return GpuLook(
            utilization_percent=_highest(ours),
            power_watts=_total(ours, lambda gpu: gpu.power_milliwatts, 1000.0),
            memory_bytes=_memory(ours),
            witnesses=tuple(_witnesses(samples, ours)),
        )

    def _keep(self, sample: Sample) -> None:
        now_seconds = self._now_seconds()
        self._seen.append(_Seen(now_seconds, sample))
        while self._seen[0].at_seconds < now_seconds - KEPT_SECONDS:
            self._seen.popleft()


_LATE_WORDS = ("did not answer within", "no answer within", "has not returned")


def _highest(ours: list[list[GpuSample]]) -> int | None:
    """None as soon as one GPU of the runner could not be read: the others prove nothing of it."""
    values = [gpu.utilization_percent for gpus in ours for gpu in gpus]
    read = [value for value in values if value is not None]
    return max(read) if read and len(read) == len(values) else None


def _total(ours: list[list[GpuSample]], value_of: Callable[[GpuSample], int | None], unit: float) -> float | None:
    """Of the latest sample."""
    values = [value_of(gpu) for gpu in ours[-1]] if ours else []
    read = [value for value in values if value is not None]
    return sum(read) / unit if read and len(read) == len(values) else None


def _memory(ours: list[list[GpuSample]]) -> int | None:
    total = _total(ours, lambda gpu: gpu.memory_used_bytes, 1.0)
    return None if total is None else int(total)


def _witnesses(samples: Iterable[Sample], ours: Iterable[list[GpuSample]]) -> Iterable[Witness]:
    late = [reason.detail for sample in samples for reason in sample.errors if _is_late(reason.detail)]
    if late:
        yield Witness(WitnessKind.SWEEP_TIMEOUT, detail=sentence(late[-1]))
    reasons = (reason for gpus in ours for gpu in gpus for reason in gpu.reasons)
    wanted = [reason.detail for reason in reasons if reason.code is ReasonCode.RECOVERY_ACTION]
    if wanted:
        yield Witness(WitnessKind.RECOVERY_ACTION, detail=sentence(wanted[-1]))


def _is_late(detail: str) -> bool:
    return any(words in detail for words in _LATE_WORDS)
