"""The loop of every runner: reads it, folds a tick, sends its canary. One that hangs stops no other."""

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from agent.clock import Clock
from agent.progress import Memory, Plan, canary_due, fold
from agent.runner_config import RunnerConfig
from agent.runner_reading import CanaryResult, GpuLook, RunnerReading
from agent.runners.keep import Keeper, Kept
from agent.runners.offloop import OffLoop
from agent.runners.plan import plan_of
from agent.runners.read import RunnerReader
from agent.runners.sources import READ_SECONDS, Unread
from agent.runners.witness import KernelLog
from wire.ticks import ApiState, CanaryOutcome, RunnerState, Tick, Witness, WitnessKind, present_seconds

log = logging.getLogger(__name__)

_EARLY = 0.1  # of a tick: so shortly before its place, a first one or a timer that ends early stands for it
READ_DEADLINE_SECONDS = 20.0  # parts have their own, shorter ones
KEPT_WINDOWS = 3  # of ticks, should the sampler not take them
SHOWN_SECONDS = 2.0  # a driver's utilisation is that of the last second

Look = Callable[[RunnerConfig, float], GpuLook]


class Canaries:
    """At most one canary of a runner is on its way; it outlives the tick that sent it."""

    def __init__(self, reader: RunnerReader) -> None:
        self._reader = reader
        self._task: asyncio.Task[CanaryResult | Unread] | None = None
        self._sent_at_seconds = 0.0
        self._ended: CanaryResult | None = None
        self._ended_at_seconds = -math.inf
        self.unsent = ""

    @property
    def outstanding_seconds(self) -> float | None:
        return None if self._task is None else asyncio.get_running_loop().time() - self._sent_at_seconds

    @property
    def is_shown(self) -> bool:
        """Whether a GPU may show it now as utilisation."""
        return self._task is not None or asyncio.get_running_loop().time() - self._ended_at_seconds < SHOWN_SECONDS

    def start(self, may_load: bool = False) -> None:
        if self._task is None:
            self._sent_at_seconds = asyncio.get_running_loop().time()
            self._task = asyncio.create_task(self._send(may_load))

    def take_ended(self) -> CanaryResult | None:
        """The canary that ended since the last call, once; its age is that of now."""
        ended, self._ended = self._ended, None
        if ended is None:
            return None
        since_end = asyncio.get_running_loop().time() - self._ended_at_seconds
        return replace(ended, sent_seconds_ago=ended.sent_seconds_ago + since_end)

    async def fresh(self, may_load: bool = False) -> CanaryResult | Unread:
        """The one that is on its way, or a new one: before a remedy, and as proof after it, when it may also load."""
        self.start(may_load)
        assert self._task is not None
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """A canary that is on its way is cut: nobody knows what would have become of it, so it counts for nothing."""
        if self._task is not None:
            task = self._task
            task.cancel()
            await asyncio.wait({task})
            log.info("canary is not concluded, as the agent ends runner=%s", self._reader.name)

    async def _send(self, may_load: bool) -> CanaryResult | Unread:
        try:
            result = await self._reader.canary(may_load)
        except Exception as error:
            log.exception("sending a canary failed, which is a bug runner=%s", self._reader.name)
            result = Unread(f"sending it failed: {type(error).__name__}")
        finally:
            self._task = None
        if isinstance(result, Unread) and not result.is_config_error:
            self.unsent = result.why
            return result
        self._ended = _as_result(result)
        self._ended_at_seconds, self.unsent = asyncio.get_running_loop().time(), ""
        log.info("canary ended runner=%s outcome=%s", self._reader.name, self._ended.outcome)
        return result


class RunnerWatch:
    """One runner: its reader, its memory and its canaries."""

    def __init__(self, config: RunnerConfig, plan: Plan, reader: RunnerReader, keeper: Keeper, kept: Kept) -> None:
        self.config = config
        self.latest: Tick | None = None
        self._plan, self._reader, self._keeper = plan, reader, keeper
        self._memory: Memory | None = kept.memory
        self.canaries = Canaries(reader)
        self.wanted = asyncio.Event()
        self._begun = self._done = 0
        self._ticked = asyncio.Event()
        self._survivor: tuple[int, Callable[[], bool]] | None = None
        self._comes_up_until_seconds = 0.0
        self._off_loop = OffLoop()
        self._told: frozenset[str] = frozenset()
        self._is_broken = False

    async def tick(self, clock: Clock, look: Look, witnesses: Sequence[Witness]) -> Tick:
        """Never raises: whatever fails is a tick in which nothing was read."""
        self.wanted.clear()
        self._begun += 1
        reading = await self._seen(clock, look, witnesses)
        memory, tick = fold(
            self._memory,
            reading,
            self._plan,
            boot_id=clock.boot_id(),
            at_seconds=clock.boottime_seconds(),
            taken_at=clock.wall(),
        )
        self._memory, self.latest = memory, tick
        why = canary_due(memory, reading, self._plan)
        if why is not None:
            log.info("canary is sent runner=%s why=%s", self.config.name, why)
            self.canaries.start()
        self._tell(reading)
        await self._keeper.keep(Kept(memory if why is None else _as_sent(memory), self._reader.state))
        self._done = self._begun
        self._ticked.set()
        self._ticked = asyncio.Event()
        return tick

    async def _seen(self, clock: Clock, look: Look, witnesses: Sequence[Witness]) -> RunnerReading:
        """What was read of the runner, with all that is known beside it."""
        since = 0.0 if self._memory is None else self._memory.at_seconds
        reading = self._coming_up(await self._read(look(self.config, since)), clock.boottime_seconds())
        return replace(
            reading,
            witnesses=(*reading.witnesses, *witnesses, *await self._survived()),
            canary=self.canaries.take_ended(),
            canary_outstanding_seconds=self.canaries.outstanding_seconds,
        )

    async def fresh_tick(self) -> Tick:
        """A tick that begins from now on, at once where one can: asked for before a remedy."""
        number = self._begun + 1
        self.wanted.set()
        while self._done < number or self.latest is None:
            await self._ticked.wait()
        return self.latest

    def comes_up(self, until_seconds: float) -> None:
        """It was started anew on purpose: until its API answers, until this time since boot at most, it loads."""
        self._comes_up_until_seconds = until_seconds

    def _coming_up(self, reading: RunnerReading, now_seconds: float) -> RunnerReading:
        if reading.api is None or now_seconds >= self._comes_up_until_seconds:
            return reading
        if reading.api.state is ApiState.OK:
            self._comes_up_until_seconds = 0.0
            return reading
        return replace(reading, state=RunnerState.LOADING)

    def killed(self, pid: int, survives: Callable[[], bool]) -> None:
        """A restart has ended this process; as long as it lives although it was sent SIGKILL, it is a witness."""
        self._survivor = (pid, survives)

    async def _survived(self) -> tuple[Witness, ...]:
        if self._survivor is None:
            return ()
        pid, survives = self._survivor
        try:
            lives = await self._off_loop.read(survives, READ_SECONDS)
        except TimeoutError:
            lives = True
        if not lives:
            self._survivor = None
            return ()
        return (Witness(WitnessKind.SURVIVED_KILL, detail=f"process {pid} lives on after SIGKILL"),)

    async def close(self) -> None:
        await self.canaries.close()

    async def _read(self, gpu: GpuLook) -> RunnerReading:
        try:
            async with asyncio.timeout(READ_DEADLINE_SECONDS):
                reading = await self._reader.read(gpu)
        except TimeoutError:
            return RunnerReading(gpu=gpu, missing=(f"the reading did not end within {READ_DEADLINE_SECONDS:g} s",))
        except Exception as error:
            if not self._is_broken:
                log.exception("reading a runner failed, which is a bug runner=%s", self.config.name)
            self._is_broken = True
            return RunnerReading(gpu=gpu, missing=(f"the reading failed: {type(error).__name__}",))
        self._is_broken = False
        return reading

    def _tell(self, reading: RunnerReading) -> None:
        """Once when something cannot be read, and once when all can be again."""
        unsent = f"canary: {self.canaries.unsent}" if self.canaries.unsent else ""
        missing = frozenset(why for why in (*reading.missing, unsent) if why)
        for why in sorted(missing - self._told):
            log.warning("runner cannot be read in full runner=%s %s", self.config.name, why)
        if self._told and not missing:
            log.info("runner can be read in full again runner=%s", self.config.name)
        self._told = missing


class Ticks:
    """All runners of the node. Each has its own task and its own place in the interval."""

    def __init__(
        self, watches: Sequence[RunnerWatch], clock: Clock, every: timedelta, look: Look, kernel_log: KernelLog
    ) -> None:
        self._watches, self._clock, self._every_seconds = watches, clock, every.total_seconds()
        self._look, self._kernel_log = look, kernel_log
        kept = KEPT_WINDOWS * max(1, len(watches)) * max(1, math.ceil(300 / self._every_seconds))
        self._taken: deque[Tick] = deque(maxlen=kept)
        self._has_kernel_log = True
        self._witnesses: tuple[float, tuple[Witness, ...]] | None = None

    def drain(self) -> tuple[Tick, ...]:
        """The ticks since the last call, in order: they belong to the window that closes now."""
        taken = tuple(self._taken)
        self._taken.clear()
        return taken

    def latest(self) -> list[Tick]:
        """The latest tick of every runner with its age; one that is too old to be "now" is left out."""
        now_seconds = self._clock.boottime_seconds()
        latest = (watch.latest for watch in self._watches if watch.latest is not None)
        aged = [replace(tick, age_seconds=max(0.0, round(now_seconds - tick.at_seconds, 1))) for tick in latest]
        return [tick for tick in aged if tick.age_seconds <= present_seconds(self._every_seconds)]

    def is_asked(self, uuid: str) -> bool:
        """Whether a canary of ours may be what this GPU is busy with."""
        shown = (watch.config.gpus for watch in self._watches if watch.canaries.is_shown)
        return any(gpus == "all" or uuid in gpus for gpus in shown)

    def watch(self, name: str) -> RunnerWatch | None:
        return next((watch for watch in self._watches if watch.config.name == name), None)

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number, watch in enumerate(self._watches):
                    tasks.create_task(self._run(watch, number * self._every_seconds / len(self._watches)))
        finally:
            for watch in self._watches:
                await watch.close()
            self._kernel_log.close()

    async def _run(self, watch: RunnerWatch, offset_seconds: float) -> None:
        """The first at once, then by the time since boot: no drift, and a tick that took too long is skipped over."""
        while True:
            try:
                self._taken.append(await watch.tick(self._clock, self._look, await self._kernel()))
            except Exception:
                log.exception("a tick failed, which is a bug runner=%s", watch.config.name)
            place = (self._clock.boottime_seconds() - offset_seconds) / self._every_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((math.floor(place + _EARLY) + 1 - place) * self._every_seconds):
                    await watch.wanted.wait()

    async def _kernel(self) -> tuple[Witness, ...]:
        """Read once for runners whose ticks are close together."""
        now_seconds = asyncio.get_running_loop().time()
        if self._witnesses is None or now_seconds - self._witnesses[0] > self._every_seconds / 2:
            self._witnesses = (now_seconds, await self._kernel_log.read(now_seconds))
            self._tell_kernel_log(self._kernel_log.why_unreadable)
        return self._witnesses[1]

    def _tell_kernel_log(self, why: str | None) -> None:
        """Once when it cannot be read, and once when it can be again."""
        if (why is None) == self._has_kernel_log:
            return
        self._has_kernel_log = why is None
        if why is not None:
            log.warning("the kernel's log cannot be read, so Xid messages are not seen: %s", why)
        else:
            log.info("the kernel's log can be read again")


def watches_of(configs: Iterable[RunnerConfig], every: timedelta, state_dir: Path) -> list[RunnerWatch]:
    return [_watch_of(config, every, state_dir) for config in configs]


def _watch_of(config: RunnerConfig, every: timedelta, state_dir: Path) -> RunnerWatch:
    keeper = Keeper(state_dir / "runners", config.name)
    kept = keeper.load()
    return RunnerWatch(config, plan_of(config, every.total_seconds()), RunnerReader(config, kept.sources), keeper, kept)


def _as_sent(memory: Memory) -> Memory:
    """An agent that ends before its next tick must not send another when it starts, nor one at each of many starts."""
    return replace(memory, clocks=replace(memory.clocks, sent=0.0))


def _as_result(result: CanaryResult | Unread) -> CanaryResult:
    return CanaryResult(CanaryOutcome.CONFIG, 0.0, detail=result.why) if isinstance(result, Unread) else result
