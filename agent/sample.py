"""Takes a sample at every tick and closes a window at every boundary, whatever failed."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from agent.clock import Clock
from agent.observe import ClosedWindow, GpuName, Grid, Latest, OpenWindow
from agent.reading import KnownGpu
from agent.verdicts import Sample, failed_sample
from wire.messages import AllocationState, Verdict
from wire.reasons import Reason, ReasonCode, in_english
from wire.ticks import Tick

log = logging.getLogger(__name__)

_BLIND = frozenset({ReasonCode.SAMPLE_ERROR, ReasonCode.GPU_MISSING, ReasonCode.PROCESS_VIEW})

TakeSample = Callable[[], Awaitable[Sample]]


class Turn(msgspec.Struct, frozen=True):
    """What must go to disk: a window that was closed, if any, and the one that is open from now on."""

    closed: ClosedWindow | None
    open: OpenWindow


def fresh_window(grid: Grid, clock: Clock) -> OpenWindow:
    """The window that is open now."""
    now_seconds = clock.boottime_seconds()
    number = grid.window_number(now_seconds)
    return OpenWindow(
        boot_id=clock.boot_id(),
        number=number,
        window_seconds=grid.window.total_seconds(),
        started_at=_label(clock, grid.window_begins_seconds(number) - now_seconds),
    )


class Sampler:
    """Samples by the time since boot: no drift, missed ticks are skipped, and a sweep that hangs stops nothing.

    `turns` is what the disk is to be told, in order; `changed` is set when a GPU's verdict changed. The first window is
    cut, as the agent started in it. `take_ticks` gives the runners' ticks since it was last asked.
    """

    def __init__(
        self, grid: Grid, clock: Clock, take_sample: TakeSample, deadline: timedelta, window: OpenWindow
    ) -> None:
        self.window = window
        self.latest: Latest | None = None
        self.turns: asyncio.Queue[Turn] = asyncio.Queue()
        self.changed = asyncio.Event()
        self.take_ticks: Callable[[], tuple[Tick, ...]] = tuple
        self._grid, self._clock, self._take_sample, self._deadline = grid, clock, take_sample, deadline
        # Bounded for the one window that may last longer: a cut one whose number the clock has to reach again.
        self._samples: deque[Sample] = deque(maxlen=2 * grid.expected_samples)
        self._is_cut = True
        self._overdue: asyncio.Task[Sample] | None = None
        self._blind: set[ReasonCode] = set()
        self._sampled = asyncio.Event()

    async def fresh(self) -> Latest:
        """The next sample that begins from now on: who is on the GPUs, asked before something is done there."""
        asked_seconds = self._clock.boottime_seconds()
        while self.latest is None or self.latest.began_seconds < asked_seconds:
            await self._sampled.wait()
        return self.latest

    async def run(self) -> None:
        last_tick, sampling = None, None
        async with asyncio.TaskGroup() as tasks:
            while True:
                now_seconds = self._clock.boottime_seconds()
                self._close_if_over(now_seconds)
                tick = self._grid.tick_number(now_seconds)
                if tick != last_tick and (sampling is None or sampling.done()):
                    sampling = tasks.create_task(self._sample())
                last_tick = tick
                # A window is a whole number of ticks long, so its boundary is a tick too.
                await asyncio.sleep(max(0.0, self._grid.tick_begins_seconds(tick + 1) - now_seconds))

    async def _sample(self) -> None:
        began_seconds = self._clock.boottime_seconds()
        sample = await self._taken()
        self._close_if_over(self._clock.boottime_seconds())
        self._samples.append(sample)
        before, self.latest = self.latest, Latest(sample, began_seconds)
        self._sampled.set()
        self._sampled = asyncio.Event()
        self._expect(sample)
        self._tell(sample)
        if before is None or _verdicts(before.sample) != _verdicts(sample):
            self.changed.set()

    async def _taken(self) -> Sample:
        """A sample in any case, and never two sweeps at once."""
        if self._overdue is not None and not self._overdue.done():
            return self._failed("an earlier reading has not returned yet")
        sweep = asyncio.ensure_future(self._take_sample())
        try:
            done, _ = await asyncio.wait({sweep}, timeout=self._deadline.total_seconds())
        except asyncio.CancelledError:
            sweep.cancel()
            raise
        if not done:
            sweep.cancel()
            self._overdue = sweep
            return self._failed(f"no answer within {self._deadline.total_seconds():g} s")
        if (error := sweep.exception()) is not None:
            if ReasonCode.SAMPLE_ERROR not in self._blind:
                log.error("taking a sample failed, which is a bug", exc_info=error)
            return self._failed(f"{type(error).__name__}: {error}")
        return sweep.result()

    def _failed(self, why: str) -> Sample:
        known = {gpu.uuid: KnownGpu(gpu.index, gpu.model) for gpu in self.window.gpus}
        return failed_sample((Reason(ReasonCode.SAMPLE_ERROR, why[:300]),), known)

    def _expect(self, sample: Sample) -> None:
        """Keeps which GPUs a window must have, should every later sample fail or the agent die."""
        gpus = tuple(GpuName(gpu.index, gpu.uuid, gpu.model) for gpu in sample.gpus)
        if gpus and gpus != self.window.gpus:
            self.window = replace(self.window, gpus=gpus)
            self.turns.put_nowait(Turn(None, self.window))

    def _tell(self, sample: Sample) -> None:
        """Once when the node cannot be judged, and once when it can be again."""
        reasons = (*sample.errors, *(reason for gpu in sample.gpus for reason in gpu.reasons))
        blind = {reason.code: reason for reason in reasons if reason.code in _BLIND}
        for code in blind.keys() - self._blind:
            log.error("GPUs cannot be judged: %s", in_english(blind[code]))
        if self._blind and not blind:
            log.info("GPUs can be judged again")
        self._blind = set(blind)

    def _close_if_over(self, now_seconds: float) -> None:
        number = self._grid.window_number(now_seconds)
        if number <= self.window.number:
            return
        closed = ClosedWindow(
            window=self.window,
            closed_at=self._clock.wall(),
            samples=tuple(self._samples),
            expected_samples=self._grid.expected_samples,
            cut=self._is_cut,
            ticks=self.take_ticks(),
        )
        self.window = replace(
            self.window,
            number=number,
            started_at=_label(self._clock, self._grid.window_begins_seconds(number) - now_seconds),
            last_closed=number - 1,  # also where nobody watched in between: that window is over, and none comes
        )
        self._samples.clear()
        self._is_cut = False
        self.turns.put_nowait(Turn(closed, self.window))


def _label(clock: Clock, seconds_from_now: float) -> datetime:
    return clock.wall() + timedelta(seconds=seconds_from_now)


def _verdicts(sample: Sample) -> dict[str, tuple[Verdict, AllocationState | None]]:
    """What a heartbeat must not wait with."""
    return {gpu.uuid: (gpu.verdict, gpu.allocation.state if gpu.allocation else None) for gpu in sample.gpus}
