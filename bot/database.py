"""The database that the config names, opened at its present schema."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from bot.config import BotConfig
from bot.store.engine import can_be_read, is_postgresql, make_engine, why
from bot.store.migrate import NewerDatabaseError, migrate
from bot.store.tenure import Tenure
from bot.store.writer import Store
from wire.configfile import ConfigError
from wire.files import give_to_owner
from wire.secrets import secret

log = logging.getLogger(__name__)

AGAIN_SECONDS = 2.0
_SQLITE = "sqlite:///"


def database_url(config: BotConfig, environment: Mapping[str, str] = os.environ) -> str:
    """It may hold a password. Raises ConfigError."""
    url = _named(config, environment)
    if is_postgresql(url) and not can_be_read(url):
        raise ConfigError("bot.database: the URL cannot be read, it wants postgresql://USER:PASSWORD@HOST:5432/NAME")
    return url


def _named(config: BotConfig, environment: Mapping[str, str]) -> str:
    if config.database is None:
        return f"{_SQLITE}{config.data_dir / 'gpu-oncall.sqlite'}"
    if "://" in config.database:
        return config.database
    url = secret(config.database, environment)
    if url is None:
        name = config.database
        raise ConfigError(f"bot.database names the secret {name}: put a URL into it, or a file into {name}_FILE")
    if not is_postgresql(url) and not url.startswith(_SQLITE):
        raise ConfigError(f"the secret {config.database} wants postgresql://USER:PASSWORD@HOST/NAME")
    return url


def is_shared(config: BotConfig) -> bool:
    """Whether a second bot may use it: PostgreSQL."""
    return is_postgresql(database_url(config))


def database_file(config: BotConfig) -> Path | None:
    """SQLite's file; None on PostgreSQL."""
    url = database_url(config)
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def require_record(config: BotConfig) -> None:
    """Raises ConfigError where SQLite's file is not there: opening it would make an empty one."""
    file = database_file(config)
    if file is not None and not file.exists():
        raise ConfigError(f"there is no record yet: {file} is made when the bot first runs")


def brought_to_present(engine: Engine, config: BotConfig) -> None:
    """At this version's schema, made where it is not there. Raises NewerDatabaseError and SQLAlchemyError."""
    migrate(engine)
    file = database_file(config)
    if file is not None and file.exists():
        give_to_owner(file, file.parent)


@asynccontextmanager
async def opened(config: BotConfig) -> AsyncIterator[Store]:
    """Raises ConfigError when it cannot be used."""
    store = Store(database_url(config))
    try:
        await asyncio.to_thread(brought_to_present, store.engine, config)
        yield store
    except (SQLAlchemyError, NewerDatabaseError) as error:
        raise ConfigError(f"the database cannot be used: {why(error)}; see bot.database and bot.data_dir") from error
    finally:
        await asyncio.to_thread(store.close)


@asynccontextmanager
async def at_work(config: BotConfig, tenure: Tenure) -> AsyncIterator[Store]:
    """The same for the time in which this bot works: nothing is written once it is over."""
    store = Store(database_url(config), tenure)
    try:
        yield store
    finally:
        await asyncio.to_thread(store.close)


async def reached(config: BotConfig, stop: asyncio.Event) -> bool:
    """Waits for a PostgreSQL that is away; False: told to stop. SQLite is never waited for."""
    if not is_shared(config):
        return True
    store = Store(database_url(config))
    try:
        is_told = False
        while not stop.is_set():
            try:
                await store.read(lambda connection: None)
                return True
            except OperationalError as error:
                if not is_told:
                    log.error("The database cannot be reached, trying on; error=%s", why(error))
                is_told = True
            await _passed(stop, AGAIN_SECONDS)
        return False
    finally:
        await asyncio.to_thread(store.close)


async def _passed(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def with_record(config: BotConfig, work: Callable[[Connection], None]) -> None:
    """Reads only, also while a bot runs. Raises ConfigError where there is no record, or it cannot be read."""
    require_record(config)
    engine = make_engine(database_url(config))
    try:
        with engine.connect() as connection:
            work(connection)
    except SQLAlchemyError as error:
        raise ConfigError(f"the record cannot be read: {why(error)}; see bot.database and bot.data_dir") from error
    finally:
        engine.dispose()
