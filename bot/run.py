"""Wires the bot together and runs it until it is told to stop."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from bot.advance import Advance, AdvanceSettings
from bot.broker.embedded import EmbeddedServer
from bot.config import SMALLEST_STORE, BotConfig, Mode
from bot.fleet import Fleet
from bot.incident import CANDIDATES, Kind
from bot.ingest import Ingest
from bot.judge.candidate import CandidateRule
from bot.listen import Listener
from bot.lock import only_bot
from bot.notify import Notifier, make_client
from bot.outbox import Outbox, OutboxSettings
from bot.render.words import words
from bot.slack.actions import Actions
from bot.slack.app import make_app
from bot.slack.commands import Commands
from bot.slack.dialogs import Dialogs
from bot.slack.gate import Gate
from bot.slack.queries import Queries
from bot.slack.sockets import Sockets
from bot.store import windows
from bot.store.migrate import NewerDatabaseError, migrate
from bot.store.writer import Store
from bot.sweep import JUDGE_EVERY_SECONDS, Sweep
from wire import subjects
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.link import Link
from wire.secrets import secret

log = logging.getLogger(__name__)

DEMO_JUDGE_EVERY_SECONDS = 0.5
# The default collects a fleet's long-lived tracks again and again: a third of the time at 2,000 windows a second.
_GC_THRESHOLDS = (50_000, 20, 100)


@dataclass(frozen=True)
class SlackAccess:
    """Where Slack is, the secrets to get in, and the channel of each kind of incident; `home` is for all others.

    Tokens never print.
    """

    api_url: str | None
    bot_token: str
    app_token: str
    channels: Mapping[Kind, str]
    home: str

    def __repr__(self) -> str:
        return "SlackAccess(<secret>)"


async def run(config: BotConfig, stop: asyncio.Event, environment: Mapping[str, str]) -> None:
    """Runs until `stop` is set. Raises ConfigError and BrokerError for what a person must change."""
    slack = slack_access(config, environment)
    seed = read_seed(config.key_file())
    with only_bot(config.data_dir):
        async with AsyncExitStack() as parts:
            store = await parts.enter_async_context(_store(config))
            servers = await parts.enter_async_context(_servers(config))
            link = Link(servers, seed, subjects.inbox(subjects.BOT), "bot", insecure=config.bus.insecure)
            parts.push_async_callback(link.close)
            await link.start()
            await _work(config, stop, store, link, slack)


def settle_gc() -> None:
    """Leaves what is loaded by now out of Python's garbage collection, and makes the rest of it rare."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def slack_access(config: BotConfig, environment: Mapping[str, str]) -> SlackAccess | None:
    """None in shadow mode without tokens; raises ConfigError where something is missing to speak."""
    tokens = secret("SLACK_BOT_TOKEN", environment), secret("SLACK_APP_TOKEN", environment)
    if config.mode is Mode.SHADOW and None in tokens:
        return None
    for name, token in zip(("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"), tokens, strict=True):
        if token is None:
            raise ConfigError(
                f"{name} is not set: put the app's token into it, or its file's name into {name}_FILE; "
                "to judge and record without Slack, set bot.mode to shadow"
            )
    channels = config.slack.channels
    candidates = channels.candidates or channels.default
    if candidates is None:
        raise ConfigError("bot.slack.channels.default is not set: put the id of the channel for cards there")
    api_url = config.slack.api_url or environment.get("SLACK_API_URL")
    home = channels.incidents or channels.default or candidates
    by_kind = {kind: candidates if kind in CANDIDATES else home for kind in Kind}
    return SlackAccess(api_url, tokens[0] or "", tokens[1] or "", by_kind, home)


async def _work(config: BotConfig, stop: asyncio.Event, store: Store, link: Link, slack: SlackAccess | None) -> None:
    fleet = Fleet(rule(config), await store.read(windows.load_tracks))
    advance = Advance(store, fleet, _advance_settings(config))
    await advance.start()
    settle_gc()
    listener = Listener(link, store, Ingest(store, fleet, advance), fleet, advance, _stream_bytes(config))
    judge_every_seconds = DEMO_JUDGE_EVERY_SECONDS if config.mode is Mode.DEMO else JUDGE_EVERY_SECONDS
    async with asyncio.TaskGroup() as tasks:
        working = [
            tasks.create_task(listener.run(), name="listener"),
            tasks.create_task(Sweep(store, advance, config.retention).run(judge_every_seconds), name="sweep"),
        ]
        if slack is not None:
            working += _speak(tasks, config, store, fleet, advance, slack)
        log.info("bot runs mode=%s nodes=%d", config.mode, len(fleet.tracks))
        await stop.wait()
        for task in working:
            task.cancel()
    log.info("bot stopped")


def _speak(
    tasks: asyncio.TaskGroup, config: BotConfig, store: Store, fleet: Fleet, advance: Advance, slack: SlackAccess
) -> list[asyncio.Task[None]]:
    """People's side. In shadow mode it answers those who ask, and nothing leaves by itself."""
    language = words(config.slack.language)
    notifier = Notifier(make_client(slack.bot_token, slack.api_url))
    settings = OutboxSettings(slack.channels, config.slack.edit_every, slack.home)
    outbox = Outbox(store, fleet, advance, notifier, language, settings)
    queries = Queries(store, fleet, advance, language)
    gate = Gate(notifier, {slack.home, *config.slack.channels.all()})
    commands = Commands(queries, advance, language, config.slack.zone(), outbox.wake)
    dialogs = Dialogs(store, advance, queries, notifier, language, config.slack.zone())
    actions = Actions(store, advance, queries, gate, language, dialogs, commands, outbox.wake)
    app = make_app(make_client("", slack.api_url), actions, commands, dialogs, gate, language)
    working = [tasks.create_task(Sockets(app, slack.app_token).run(), name="slack sockets")]
    if config.mode is not Mode.SHADOW:
        working.append(tasks.create_task(outbox.run(), name="outbox"))
    return working


@asynccontextmanager
async def _store(config: BotConfig) -> AsyncIterator[Store]:
    """The database at its present schema; raises ConfigError when it cannot be used."""
    url = config.database or f"sqlite:///{config.data_dir / 'gpu-oncall.sqlite'}"
    store = Store(url)
    try:
        await asyncio.to_thread(migrate, store.engine)
        yield store
    except (SQLAlchemyError, NewerDatabaseError) as error:
        raise ConfigError(f"the database cannot be used: {error}; see bot.database and bot.data_dir") from error
    finally:
        await asyncio.to_thread(store.close)


@asynccontextmanager
async def _servers(config: BotConfig) -> AsyncIterator[list[str]]:
    """The bus: ours, started here, or one that runs elsewhere."""
    embedded = config.bus.embedded_server()
    if embedded is None:
        yield config.bus.servers
        return
    server = EmbeddedServer(config, embedded)
    await server.start()
    try:
        yield [server.url]
    finally:
        await server.stop()


def rule(config: BotConfig) -> CandidateRule:
    """The thresholds of the config; only `mode: demo` may believe short windows and recordings."""
    is_demo = config.mode is Mode.DEMO
    return CandidateRule(
        windows=config.candidates.windows,
        heartbeat_max_age_seconds=config.candidates.heartbeat_max_age.total_seconds(),
        sample_max_age_seconds=config.candidates.sample_max_age.total_seconds(),
        shortest_window_seconds=0.0 if is_demo else CandidateRule().shortest_window_seconds,
        believe_recordings=is_demo,
    )


def _advance_settings(config: BotConfig) -> AdvanceSettings:
    return AdvanceSettings(
        gather=config.candidates.gather,
        edit_every=config.slack.edit_every,
        shadow=config.mode is Mode.SHADOW,
        groups=config.groups,
        calendar=config.calendar(),
        zone=config.slack.zone(),
    )


def _stream_bytes(config: BotConfig) -> int:
    embedded = config.bus.embedded_server()
    return embedded.max_store if embedded else SMALLEST_STORE
