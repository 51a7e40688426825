"""Folds samples into windows, and numbers windows by the time since boot."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from agent.verdicts import GpuSample, Sample
from wire.messages import VERSION, Allocation, AllocationState, GpuWindow, Observation, Process, Verdict
from wire.reasons import Reason, ReasonCode
from wire.ticks import Tick

KEPT_REASONS_PER_CODE = 8
KEPT_PROCESSES = 64  # of one GPU; a message that is still too large is cut further by `wire.messages.fit`
NEEDED_PERCENT = 90  # of the expected samples, for a candidate

_PEAKS = frozenset({ReasonCode.UTILIZATION, ReasonCode.MEMORY_HELD})  # their detail is a number: the highest counts


class Grid(msgspec.Struct, frozen=True):
    """Where windows and samples begin, in seconds since boot: the wall clock has no part in it."""

    window: timedelta
    sample_every: timedelta
    offset: timedelta

    @property
    def expected_samples(self) -> int:
        return max(1, round(self.window / self.sample_every))

    def window_number(self, boottime_seconds: float) -> int:
        return self._number(boottime_seconds, self.window)

    def window_begins_seconds(self, number: int) -> float:
        return self._begins_seconds(number, self.window)

    def tick_number(self, boottime_seconds: float) -> int:
        return self._number(boottime_seconds, self.sample_every)

    def tick_begins_seconds(self, number: int) -> float:
        return self._begins_seconds(number, self.sample_every)

    def _number(self, boottime_seconds: float, length: timedelta) -> int:
        return math.floor((boottime_seconds + self.offset.total_seconds()) / length.total_seconds())

    def _begins_seconds(self, number: int, length: timedelta) -> float:
        return number * length.total_seconds() - self.offset.total_seconds()


def grid_of(node: str, window: timedelta, sample_every: timedelta) -> Grid:
    """The node's own grid: its name moves it by 0 to one window, so that a fleet does not report all at once."""
    share = int.from_bytes(hashlib.sha256(node.encode()).digest()[:4], "big") / 2**32
    return Grid(window, sample_every, window * share)


class GpuName(msgspec.Struct, frozen=True):
    index: int
    uuid: str
    model: str | None = None


class OpenWindow(msgspec.Struct, frozen=True):
    """The window that is being filled, as it is kept on disk: what must be known when the agent dies in it.

    `last_closed` is the last window number of this boot that is over, watched or not; None before the first. `gpus` are
    the GPUs that are expected in it.
    """

    boot_id: str
    number: int
    window_seconds: float
    started_at: datetime
    gpus: tuple[GpuName, ...] = ()
    last_closed: int | None = None


class ClosedWindow(msgspec.Struct, frozen=True):
    """A window that nothing can be added to. `cut`: the agent started in it, so that part of it was not seen."""

    window: OpenWindow
    closed_at: datetime
    samples: tuple[Sample, ...]
    expected_samples: int
    cut: bool = False
    ticks: tuple[Tick, ...] = ()


class Latest(msgspec.Struct, frozen=True):
    """The latest sample, and when it began on the time since boot: it is at least that old."""

    sample: Sample
    began_seconds: float


class Reporter(msgspec.Struct, frozen=True):
    """Who reports."""

    node: str
    agent_version: str
    collector: str


def resume(kept: OpenWindow | None, fresh: OpenWindow) -> tuple[OpenWindow | None, OpenWindow]:
    """After a start: the window that was open when the agent died and is over, if any, and the one that is open now.

    A window number that was closed before in this boot is never opened again.
    """
    if kept is None:
        return None, fresh
    if (kept.boot_id, kept.window_seconds) != (fresh.boot_id, fresh.window_seconds):
        return kept, replace(fresh, gpus=kept.gpus)
    if kept.number < fresh.number:
        return kept, replace(fresh, gpus=kept.gpus, last_closed=fresh.number - 1)
    return None, kept


def lost(window: OpenWindow, expected_samples: int) -> ClosedWindow:
    """A window whose samples died with the agent."""
    ends_at = window.started_at + timedelta(seconds=window.window_seconds)
    return ClosedWindow(window, ends_at, (), expected_samples, cut=True)


def observation(closed: ClosedWindow, reporter: Reporter, spool_epoch: str, seq: int) -> Observation:
    window = closed.window
    return Observation(
        version=VERSION,
        node=reporter.node,
        boot_id=window.boot_id,
        spool_epoch=spool_epoch,
        seq=seq,
        window_number=window.number,
        window_seconds=window.window_seconds,
        started_at=window.started_at,
        closed_at=closed.closed_at,
        agent_version=reporter.agent_version,
        collector=reporter.collector,
        gpus=fold(closed),
        errors=_distinct(error for sample in closed.samples for error in sample.errors),
        ticks=list(closed.ticks),
    )


def fold(closed: ClosedWindow) -> list[GpuWindow]:
    """One window per GPU, in the order of their indexes: those that were expected and those that were seen."""
    names = {gpu.uuid: gpu for gpu in closed.window.gpus}
    samples: dict[str, list[GpuSample]] = {uuid: [] for uuid in names}
    for sample in closed.samples:
        for gpu in sample.gpus:
            names[gpu.uuid] = GpuName(gpu.index, gpu.uuid, gpu.model)
            samples.setdefault(gpu.uuid, []).append(gpu)
    folded = [_fold_gpu(names[uuid], of_gpu, closed) for uuid, of_gpu in samples.items()]
    return sorted(folded, key=lambda gpu: (gpu.index, gpu.uuid))


def _fold_gpu(name: GpuName, samples: Sequence[GpuSample], closed: ClosedWindow) -> GpuWindow:
    verdict, reasons = _judge(samples, closed)
    processes = _union(samples)
    return GpuWindow(
        index=name.index,
        uuid=name.uuid,
        verdict=verdict,
        reasons=reasons,
        samples=len(samples),
        expected_samples=closed.expected_samples,
        model=name.model,
        utilization_max_percent=_highest(sample.utilization_percent for sample in samples),
        memory_max_bytes=_highest(sample.memory_used_bytes for sample in samples),
        processes=processes[:KEPT_PROCESSES],
        processes_cut=max(0, len(processes) - KEPT_PROCESSES),
        power_mean_watts=_mean_watts(samples),
        allocation=_strictest_allocation(samples),
        only_canary_busy=_only_canary_busy(samples),
    )


def _judge(samples: Sequence[GpuSample], closed: ClosedWindow) -> tuple[Verdict, list[Reason]]:
    held = [sample for sample in samples if sample.verdict is Verdict.HELD]
    if held:
        return Verdict.HELD, _distinct(reason for sample in held for reason in sample.reasons)
    missing = list(_why_incomplete(len(samples), closed))
    unsure = [sample for sample in samples if sample.verdict is not Verdict.CANDIDATE]
    if missing or unsure:
        return Verdict.UNKNOWN, _distinct((*missing, *(reason for sample in unsure for reason in sample.reasons)))
    return Verdict.CANDIDATE, _distinct(reason for sample in samples for reason in sample.reasons)


def _why_incomplete(samples: int, closed: ClosedWindow) -> Iterable[Reason]:
    if closed.cut:
        yield Reason(ReasonCode.AGENT_RESTARTED)
    elif samples * 100 < closed.expected_samples * NEEDED_PERCENT:
        yield Reason(ReasonCode.TOO_FEW_SAMPLES, f"{samples} of {closed.expected_samples}")


def _distinct(reasons: Iterable[Reason]) -> list[Reason]:
    """Each reason once, in the order of appearance; of numbers only the highest, of each code only so many."""
    kept: dict[ReasonCode, list[Reason]] = {}
    for reason in reasons:
        of_code = kept.setdefault(reason.code, [])
        if reason.code in _PEAKS and of_code:
            of_code[:] = [max(of_code[0], reason, key=_number)]
        elif reason not in of_code and len(of_code) < KEPT_REASONS_PER_CODE:
            of_code.append(reason)
    return [reason for of_code in kept.values() for reason in of_code]


def _number(reason: Reason) -> int:
    return int(reason.detail) if reason.detail.isdecimal() else -1


def _highest(values: Iterable[int | None]) -> int | None:
    """None when no sample could read it: not measured is not 0."""
    return max((value for value in values if value is not None), default=None)


def _only_canary_busy(samples: Sequence[GpuSample]) -> bool:
    """False where it was never busy, or where no sample without a canary shows what it is like then."""
    others = [sample.utilization_percent for sample in samples if not sample.beside_canary]
    was_busy = any(sample.utilization_percent for sample in samples)
    return was_busy and bool(others) and all(percent == 0 for percent in others)


def _mean_watts(samples: Sequence[GpuSample]) -> float | None:
    """None when no sample could read it."""
    milliwatts = [sample.power_milliwatts for sample in samples if sample.power_milliwatts is not None]
    return round(sum(milliwatts) / len(milliwatts) / 1000, 1) if milliwatts else None


_STRICTER = {AllocationState.FREE: 0, AllocationState.UNREADABLE: 1, AllocationState.ALLOCATED: 2}


def _strictest_allocation(samples: Sequence[GpuSample]) -> Allocation | None:
    """Allocated in any sample is allocated in the window; of equal ones the newest."""
    allocations = [sample.allocation for sample in reversed(samples) if sample.allocation is not None]
    return max(allocations, key=lambda allocation: _STRICTER[allocation.state], default=None)


def _union(samples: Sequence[GpuSample]) -> list[Process]:
    """Every process of the window once, as it was seen last."""
    seen = {}
    for sample in samples:
        for process in sample.processes or ():
            seen[process.pid, process.kind, process.started_at] = process
    return list(seen.values())
