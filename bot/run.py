"""Wires the bot together and runs it until it is told to stop."""

import asyncio
import gc
import importlib.metadata
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from bot.advance import Advance
from bot.broker import nodes
from bot.broker.embedded import EmbeddedServer
from bot.broker.enrolment import Enrolment
from bot.config import SMALLEST_STORE, BotConfig, Mode
from bot.database import at_work, opened, reached
from bot.fleet import Fleet
from bot.ingest import Ingest
from bot.join_notices import JoinNotices
from bot.key_news import KeyNews
from bot.lease import Leases
from bot.listen import Listener
from bot.lock import only_bot
from bot.probes.gather import Gatherer
from bot.probes.serve import probed
from bot.runners import Runners
from bot.speak import SlackAccess, slack_access, speak
from bot.standby import Standby, this_bot
from bot.store import windows
from bot.store.tenure import Tenure
from bot.store.writer import Store
from bot.sweep import JUDGE_EVERY_SECONDS, Sweep
from bot.terminal.answers import Answers
from bot.terminal.server import terminal
from bot.terminal.wire import socket_path
from bot.wanted import advance_settings, heartbeat_url, rule, stall_settings
from wire import subjects
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.link import Link

log = logging.getLogger(__name__)

DEMO_JUDGE_EVERY_SECONDS = 0.5
# The default collects a fleet's long-lived tracks again and again: a third of the time at 2,000 windows a second.
_GC_THRESHOLDS = (50_000, 20, 100)

Work = Callable[[Store, Tenure, asyncio.Event], Awaitable[None]]


async def run(config: BotConfig, stop: asyncio.Event, environment: Mapping[str, str]) -> None:
    """Runs until `stop` is set. Raises ConfigError and BrokerError for what a person must change."""
    slack = slack_access(config, environment)
    seed, ping_url = read_seed(config.key_file()), heartbeat_url(config, environment)
    with only_bot(config.data_dir):
        if not await reached(config, stop):
            return
        async with AsyncExitStack() as parts:
            store = await parts.enter_async_context(opened(config))
            server = await parts.enter_async_context(_server(config))
            servers = [server.url] if server else config.bus.servers
            link = _link(config, servers, seed)
            parts.push_async_callback(link.close)
            await link.start()
            gatherer = Gatherer(store, link, has_slack=slack is not None and config.mode is not Mode.SHADOW)
            told = probed(gatherer, config.metrics.address(), bot_version(), ping_url, environment)
            await parts.enter_async_context(told)
            bots, enrolment = Leases(store.engine, this_bot()), Enrolment(config.data_dir, link, server)
            while (tenure := await Standby(config, bots).begun(stop)) is not None:
                await _work_while(config, stop, bots, tenure, partial(_work, config, link, slack, enrolment, gatherer))
                gatherer.waits()
                if not stop.is_set():
                    link.start_over()


async def _work_while(config: BotConfig, stop: asyncio.Event, bots: Leases, tenure: Tenure, work: Work) -> None:
    """Works until it is told to stop, or until the lease is lost. Raises ConfigError where it cannot come back."""
    over = asyncio.Event()
    keeping = asyncio.create_task(bots.keep(tenure), name="lease")
    stopping = asyncio.create_task(stop.wait())
    for ends in (keeping, stopping):
        ends.add_done_callback(lambda _: over.set())
    try:
        async with at_work(config, tenure) as store:
            await work(store, tenure, over)
    finally:
        keeping.cancel()
        stopping.cancel()
    if stop.is_set():
        await bots.give_back(tenure)
    elif not bots.is_shared:
        raise ConfigError("another gpu-oncall has begun on this database: one bot for each SQLite database")
    else:
        log.error("This bot stopped working, it waits again: %s", keeping.result())


def bot_version() -> str:
    try:
        return importlib.metadata.version("gpu-oncall")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def settle_gc() -> None:
    """Leaves what is loaded by now out of Python's garbage collection, and makes the rest of it rare."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _link(config: BotConfig, servers: Sequence[str], seed: str) -> Link:
    inbox = subjects.inbox(subjects.BOT)
    return Link(servers, seed, inbox, "bot", ca_file=config.ca_file(), insecure=config.bus.insecure)


async def _work(
    config: BotConfig,
    link: Link,
    slack: SlackAccess | None,
    enrolment: Enrolment,
    gatherer: Gatherer,
    store: Store,
    tenure: Tenure,
    over: asyncio.Event,
) -> None:
    runners = Runners(stall_settings(config))
    tracks = await store.read(windows.load_tracks)
    fleet = Fleet(rule(config), tracks, runners=runners, is_member=partial(_is_member, config))
    advance = Advance(store, fleet, advance_settings(config))
    await advance.start()
    settle_gc()
    ingest = Ingest(store, fleet, advance)
    gatherer.works(fleet, tenure.fence)
    activity, stream_bytes = gatherer.activity, _stream_bytes(config)
    listener = Listener(link, store, ingest, fleet, advance, stream_bytes, config.bus.replicas, activity)
    judge_every_seconds = DEMO_JUDGE_EVERY_SECONDS if config.mode is Mode.DEMO else JUDGE_EVERY_SECONDS
    async with asyncio.TaskGroup() as tasks:
        working = [
            tasks.create_task(listener.run(), name="listener"),
            tasks.create_task(enrolment.run(), name="enrolment"),
            tasks.create_task(KeyNews(config.data_dir, link, fleet).run(), name="key news"),
            tasks.create_task(Sweep(store, advance, config.retention, activity).run(judge_every_seconds), name="sweep"),
        ]
        commands, loops = speak(config, store, fleet, advance, slack, link)
        working += [tasks.create_task(begin(), name=name) for name, begin in loops]
        if slack is not None and config.mode is not Mode.SHADOW:
            notices = JoinNotices(store, slack.home)
            enrolment.on_refused = notices.refused
            working.append(tasks.create_task(notices.run(), name="join notices"))
        log.info("bot runs mode=%s nodes=%d fence=%d", config.mode, len(fleet.tracks), tenure.fence)
        async with terminal(socket_path(config.data_dir), Answers(commands).answer, config.slack.language):
            await over.wait()
        for task in working:
            task.cancel()
    log.info("bot stopped")


def _is_member(config: BotConfig, node: str) -> bool:
    """Whether the node may still use the bus; who may use one that is not ours nobody tells."""
    if config.bus.embedded_server() is None:
        return True
    try:
        return (nodes.folder(config.data_dir) / f"{node}.pub").exists()
    except OSError as error:
        log.error("the folder of nodes cannot be read error=%s", error)
        return True


@asynccontextmanager
async def _server(config: BotConfig) -> AsyncIterator[EmbeddedServer | None]:
    """The bus: ours, started here, or None for one that runs elsewhere."""
    embedded = config.bus.embedded_server()
    if embedded is None:
        yield None
        return
    server = EmbeddedServer(config, embedded)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _stream_bytes(config: BotConfig) -> int:
    embedded = config.bus.embedded_server()
    return embedded.max_store if embedded else SMALLEST_STORE
