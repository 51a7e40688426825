"""Wires the agent together and runs it until it is told to stop."""

import asyncio
import contextlib
import fcntl
import importlib.metadata
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.allocation.allocations import allocations_of
from agent.clock import Clock
from agent.collectors import COLLECTORS
from agent.collectors.releasable import Releasable
from agent.config import AgentConfig, Mode
from agent.heartbeat import heartbeat
from agent.key_changes import follow_key_changes
from agent.known_gpus import KnownGpus
from agent.observe import Reporter, grid_of, lost, resume
from agent.publish import Sender, send_heartbeats
from agent.read_sample import rule_settings, take_sample
from agent.record import Record
from agent.releases import LOCK_NAME, Releases
from agent.sample import Sampler, TakeSample, Turn, fresh_window
from agent.spool import Spool
from agent.trusted_keys import TrustedKeys
from agent.vitals import Gatherer
from agent.windows import WindowKeeper, kept_window
from wire import subjects
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.link import Link
from wire.messages import Heartbeat, encode
from wire.supervised import supervised

if TYPE_CHECKING:
    from agent.remedies.orders import Orders
    from agent.runner_config import RunnerConfig
    from agent.runner_reading import GpuLook
    from agent.ticks import Ticks

log = logging.getLogger(__name__)

SWEEP_GRACE = timedelta(seconds=5)  # a collector keeps its own deadline, and then may have a child to end
STOP_DEADLINE = timedelta(seconds=5)
MISSED_SAMPLES = 6  # so many in a row that were not even tried: it hangs
_RECONNECT_WITHIN = {Mode.LIVE: timedelta(seconds=5), Mode.DEMO: timedelta(seconds=0.2)}


async def run(
    config: AgentConfig, stop: asyncio.Event, *, clock: Clock | None = None, take_sample: TakeSample | None = None
) -> None:
    """Runs until `stop` is set. Simulated nodes pass their own clock and samples.

    Raises ConfigError for what a person must change, and SpoolError when the spool cannot be opened.
    """
    read_seed(config.key_file())  # a key that cannot be used ends the start, not a connection
    link = _link(config)
    with _only_agent(config.state_dir):
        async with _sampling(config, take_sample) as sampling, _spool(config) as spool:
            try:
                await _work(config, stop, clock or Clock(), sampling, spool, link)
            finally:
                await link.close()


async def _work(
    config: AgentConfig, stop: asyncio.Event, clock: Clock, sampling: TakeSample, spool: Spool, link: Link
) -> None:
    reporter = Reporter(config.node, agent_version(), config.collector)
    ticks, sampling = _ticks(config, clock, sampling)
    sampler = await _sampler(config, clock, sampling, spool)
    sampler.take_ticks = tuple if ticks is None else ticks.drain
    record = Record(config.state_dir, config.record.max_size, config.record.files)
    keys = TrustedKeys(config.state_dir, clock)
    await follow_key_changes(link, config.node, keys, sampler.changed.set)
    keeper = WindowKeeper(spool, record, reporter, sampler.changed.set)

    def beat() -> Heartbeat:
        return heartbeat(
            reporter,
            sampler.window,
            sampler.latest,
            spool_epoch=spool.epoch,
            last_seq=spool.last_seq,
            now_seconds=clock.boottime_seconds(),
            sent_at=clock.wall(),
            runners=() if ticks is None else ticks.latest(),
            order_key=keys.name,
            remedies=None if orders is None else orders.told(),
        )

    orders = _orders(config, clock, keys, link, sampler, ticks, spool, beat)
    if orders is not None:
        await orders.listen()
    patience_seconds = MISSED_SAMPLES * (config.sample_every + config.sample_deadline + SWEEP_GRACE).total_seconds()
    gatherer = Gatherer(link, spool, lambda: sampler.latest, clock.boottime_seconds, patience_seconds)
    log.info("agent runs node=%s collector=%s window=%s", config.node, config.collector, sampler.window.number)
    await link.start()
    with _pages(config, gatherer):
        telling = [
            keeper.run(sampler.turns),
            Sender(spool, link, config.node).run(),
            send_heartbeats(link, config.node, beat, config.heartbeat_every, sampler.changed),
            supervised(gatherer.hung),
        ]
        telling += [part.run() for part in (ticks, orders) if part is not None]
        await _until_stopped(stop, sampler, telling)
    log.info("agent stopped node=%s", config.node)


async def _until_stopped(stop: asyncio.Event, sampler: Sampler, telling: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Sampling ends first, so that what it saw last is still told."""
    async with asyncio.TaskGroup() as tasks:
        seeing = tasks.create_task(sampler.run())
        tellers = [tasks.create_task(one) for one in telling]
        await stop.wait()
        seeing.cancel()
        await _last_turns(sampler)
        for task in tellers:
            task.cancel()


def _pages(config: AgentConfig, gatherer: Gatherer) -> contextlib.AbstractContextManager[int]:
    """Nothing of HTTP is loaded where nobody asks: it costs 20 MiB."""
    listen = config.metrics.address()
    if listen is None:
        return contextlib.nullcontext(0)
    from agent.probes import probed

    return probed(gatherer, listen)


def _ticks(config: AgentConfig, clock: Clock, sampling: TakeSample) -> "tuple[Ticks | None, TakeSample]":
    """The runners' loops, and sampling that shows them the GPUs. A node without runners loads none of it."""
    if not config.runners:
        return None, sampling
    from agent.runners.gpus import GpuWatch
    from agent.runners.witness import KernelLog
    from agent.ticks import Ticks, watches_of

    gpus = GpuWatch(sampling, clock.boottime_seconds)
    watches = watches_of(config.runners, config.runners_every, config.state_dir)

    def look(runner: "RunnerConfig", since_seconds: float) -> "GpuLook":
        return gpus.look(runner.gpus, since_seconds)

    ticks = Ticks(watches, clock, config.runners_every, look, KernelLog())
    gpus.is_asked = ticks.is_asked
    return ticks, gpus.sample


def _orders(
    config: AgentConfig,
    clock: Clock,
    keys: TrustedKeys,
    link: Link,
    sampler: Sampler,
    ticks: "Ticks | None",
    spool: Spool,
    beat: Callable[[], Heartbeat],
) -> "Orders | None":
    """None where no remedy is on, or where no journal of them can be kept: nothing is then offered."""
    if not config.remedies.are_offered:
        return None
    from agent.remedies.journal import Journal, JournalError
    from agent.remedies.node import Node
    from agent.remedies.offers import allowed_of
    from agent.remedies.orders import Orders

    journal = Journal(config.state_dir, clock)
    try:
        journal.open()
    except JournalError as error:
        log.error("no remedy is offered: %s", error)
        return None
    node = Node(config.node, clock, journal, allowed_of(config.remedies), sampler, ticks, lambda: spool.epoch)

    async def tell() -> bool:
        return await link.publish_and_wait(subjects.heartbeat(config.node), encode(beat()))

    return Orders(config.remedies, node, keys, link, tell, sampler.changed.set)


async def _sampler(config: AgentConfig, clock: Clock, sampling: TakeSample, spool: Spool) -> Sampler:
    """A sampler that begins where the last run of the agent was cut off."""
    grid = grid_of(config.node, config.window, config.sample_every)
    cut_off, window = resume(await kept_window(spool), fresh_window(grid, clock))
    sampler = Sampler(grid, clock, sampling, config.sample_deadline + SWEEP_GRACE, window)
    closed = None if cut_off is None else lost(cut_off, grid.expected_samples)
    sampler.turns.put_nowait(Turn(closed, window))
    return sampler


async def _last_turns(sampler: Sampler) -> None:
    try:
        async with asyncio.timeout(STOP_DEADLINE.total_seconds()):
            await sampler.turns.join()
    except TimeoutError:
        log.error("stopping without the last windows, the disk does not answer windows=%d", sampler.turns.qsize())


def _link(config: AgentConfig) -> Link:
    """It reads the key again at each connection, so that a node that joins anew needs no restart."""
    return Link(
        config.bus.servers,
        partial(read_seed, config.key_file()),
        subjects.inbox(config.node),
        f"agent {config.node}",
        ca_file=config.ca_file(),
        insecure=config.bus.insecure,
        first_pause=_RECONNECT_WITHIN[config.mode],
    )


@contextlib.asynccontextmanager
async def _sampling(config: AgentConfig, given: TakeSample | None) -> AsyncIterator[TakeSample]:
    if given is not None:
        yield given
        return
    collector = Releasable(COLLECTORS[config.collector](config), Releases(config.state_dir, Clock()), answers=True)
    known_gpus = None if config.collector == "replay" else KnownGpus(config.state_dir)
    allocations = allocations_of(config)
    try:
        yield partial(take_sample, collector, known_gpus, rule_settings(config), allocations=allocations)
    finally:
        allocations.close()
        await collector.close()


@contextlib.asynccontextmanager
async def _spool(config: AgentConfig) -> AsyncIterator[Spool]:
    spool = Spool(config.state_dir, config.spool.max_size)
    try:
        await spool.open()
        yield spool
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_DEADLINE.total_seconds()):
                await spool.close()


@contextlib.contextmanager
def _only_agent(state_dir: Path) -> Iterator[None]:
    """Holds the state folder: two agents in one would publish each other's windows."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the folder {state_dir} cannot be used: {error.strerror}: "
            "make it writable for this user, or set agent.state_dir to another folder"
        ) from error
    try:
        _take(lock, state_dir)
        yield
    finally:
        os.close(lock)


def _take(lock: int, state_dir: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(
            f"another gpu-oncall-agent runs in {state_dir}: stop it first, or give this one another agent.state_dir"
        ) from error


def agent_version() -> str:
    try:
        return importlib.metadata.version("gpu-oncall")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
