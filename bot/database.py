"""The database that the config names, opened at its present schema."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from bot.config import BotConfig
from bot.store.migrate import NewerDatabaseError, migrate
from bot.store.writer import Store
from wire.configfile import ConfigError

_SQLITE = "sqlite:///"


def database_url(config: BotConfig) -> str:
    return config.database or f"{_SQLITE}{config.data_dir / 'gpu-oncall.sqlite'}"


def database_file(config: BotConfig) -> Path:
    return Path(database_url(config).removeprefix(_SQLITE))


@asynccontextmanager
async def opened(config: BotConfig) -> AsyncIterator[Store]:
    """Raises ConfigError when it cannot be used."""
    store = Store(database_url(config))
    try:
        await asyncio.to_thread(migrate, store.engine)
        yield store
    except (SQLAlchemyError, NewerDatabaseError) as error:
        raise ConfigError(f"the database cannot be used: {error}; see bot.database and bot.data_dir") from error
    finally:
        await asyncio.to_thread(store.close)
