"""Reads what the guard is to look at: samples, ticks, canaries, clocks and the journal of this node, now."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Literal

import msgspec

from agent.clock import Clock
from agent.observe import Latest
from agent.remedies.facts import Allowed, Asked, Facts, ProcessesNow
from agent.remedies.journal import Journal
from agent.remedies.still import needs_canary
from agent.runner_reading import CanaryResult
from agent.runners.plan import canary_spec
from agent.runners.sources import Unread
from agent.sample import Sampler
from agent.ticks import RunnerWatch, Ticks
from agent.verdicts import GpuSample
from wire.messages import Process
from wire.orders import AcceptedProcess, Action, Order
from wire.reasons import UNLISTED, in_english
from wire.ticks import CanaryOutcome, Tick, present_seconds

OLDEST_SAMPLE_SECONDS = 30.0


class Received(msgspec.Struct, frozen=True):
    """When an order came, by both clocks."""

    at: datetime
    at_seconds: float


class Node:
    """`spool_epoch` is asked each time: a damaged spool begins a new one. `ticks` None: no runner is watched here."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        journal: Journal,
        allowed: Allowed,
        sampler: Sampler,
        ticks: Ticks | None,
        spool_epoch: Callable[[], str],
    ) -> None:
        self.name, self.journal, self._clock, self._allowed = name, journal, clock, allowed
        self._sampler, self._ticks, self._spool_epoch = sampler, ticks, spool_epoch

    def received(self) -> Received:
        return Received(self._clock.wall(), self._clock.boottime_seconds())

    def facts(self, order: Order, received: Received) -> Facts:
        """By the latest sample and tick that are there."""
        return self._facts(order, received, self._sampler.latest, self._latest_tick(order), None)

    async def asked(self, order: Order, received: Received) -> Facts:
        """By a canary sent for this order, and by a sample and a tick that begin after its end. Takes as long as that:
        the caller has a deadline."""
        asked = await self._ask(order)
        watch = self._watch_of(order)
        sample, tick = await asyncio.gather(self._sampler.fresh(), _fresh_tick(watch))
        return self._facts(order, received, sample, tick, asked)

    def watch(self, runner: str) -> RunnerWatch | None:
        """The runner's loop; None where there is none."""
        return None if self._ticks is None else self._ticks.watch(runner)

    def _watch_of(self, order: Order) -> RunnerWatch | None:
        return None if order.runner is None else self.watch(order.runner.runner)

    def _facts(
        self, order: Order, received: Received, latest: Latest | None, tick: Tick | None, asked: Asked | None
    ) -> Facts:
        now_seconds = self._clock.boottime_seconds()
        return Facts(
            node=self.name,
            boot_id=self._clock.boot_id(),
            spool_epoch=self._spool_epoch(),
            challenge=self.journal.challenge,
            highest_fence=self.journal.highest_fence,
            now=self._clock.wall(),
            received_at=received.at,
            waited_seconds=now_seconds - received.at_seconds,
            allowed=self._allowed,
            seen=self.journal.seen,
            under_way=self.journal.under_way(),
            acts=self.journal.acts(),
            processes=_processes(latest, now_seconds, self._gpus(order)),
            sharing=self._sharing(order),
            tick=tick,
            asked=asked,
        )

    async def _ask(self, order: Order) -> Asked | None:
        if not needs_canary(order):
            return None
        watch = self._watch_of(order)
        if watch is None:
            return Asked(unsent="the runner is not watched here")
        if canary_spec(watch.config) is None:
            return Asked(is_off=True)
        was_on_its_way = watch.canaries.outstanding_seconds is not None
        result = await watch.canaries.fresh()
        if was_on_its_way and not _is_good(
            result
        ):  # it tells of before the order, and perhaps of a request that was lost
            result = await watch.canaries.fresh()
        return Asked(unsent=result.why) if isinstance(result, Unread) else Asked(result)

    def _gpus(self, order: Order) -> Literal["all"] | list[str]:
        """A restart ends what is on the runner's GPUs, a reboot everything."""
        watch = self._watch_of(order)
        return "all" if watch is None or order.action is not Action.RESTART_RUNNER else watch.config.gpus

    def _sharing(self, order: Order) -> tuple[str, ...]:
        """One server may be watched as several runners, one for each model."""
        said = order.runner
        if self._ticks is None or said is None or said.pid is None:
            return ()
        others = (tick for tick in self._ticks.latest() if tick.runner != said.runner)
        return tuple(tick.runner for tick in others if (tick.pid, tick.process_started) == (said.pid, said.started))

    def _latest_tick(self, order: Order) -> Tick | None:
        watch = self._watch_of(order)
        tick = None if watch is None else watch.latest
        if tick is None or self._clock.boottime_seconds() - tick.at_seconds > present_seconds(tick.tick_seconds):
            return None
        return tick


def _is_good(result: CanaryResult | Unread) -> bool:
    return isinstance(result, CanaryResult) and result.outcome is CanaryOutcome.OK


async def _fresh_tick(watch: RunnerWatch | None) -> Tick | None:
    return None if watch is None else await watch.fresh_tick()


def _processes(latest: Latest | None, now_seconds: float, gpus: Literal["all"] | list[str]) -> ProcessesNow:
    if latest is None or now_seconds - latest.began_seconds > OLDEST_SAMPLE_SECONDS:
        return ProcessesNow(hidden="no sample of the GPUs is of now")
    sample = latest.sample
    if sample.errors:
        return ProcessesNow(hidden=in_english(sample.errors[0]))
    ours = [gpu for gpu in sample.gpus if gpus == "all" or gpu.uuid in gpus]
    if gpus != "all" and {gpu.uuid for gpu in ours} != set(gpus):
        return ProcessesNow(hidden="a GPU of the runner is not there")
    return _of_gpus(ours)


def _of_gpus(gpus: list[GpuSample]) -> ProcessesNow:
    """A process whose start cannot be read could be anybody."""
    listed = [process for gpu in gpus for process in gpu.processes or ()]
    known = frozenset(AcceptedProcess(process.pid, process.started) for process in listed if process.started)
    return ProcessesNow(known, _hidden(gpus, listed))


def _hidden(gpus: list[GpuSample], listed: list[Process]) -> str:
    unread = [gpu.index for gpu in gpus if gpu.processes is None]
    if unread:
        return f"the processes on GPU {unread[0]} cannot be read"
    left_out = [reason for gpu in gpus for reason in gpu.reasons if reason.code in UNLISTED]
    if left_out:
        return in_english(left_out[0])
    if why := next((gpu.unlisted for gpu in gpus if gpu.unlisted), ""):
        return why
    nameless = [process.pid for process in listed if not process.started]
    return f"it cannot be read since when process {nameless[0]} runs" if nameless else ""
