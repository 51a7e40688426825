"""The database for one command, while no bot works on it and none may begin."""

import contextlib
import socket
from collections.abc import AsyncIterator

from bot.config import BotConfig
from bot.database import at_work, opened
from bot.lease import Leases
from bot.lock import only_bot
from bot.store.leases import Lease
from bot.store.writer import Store
from wire.configfile import ConfigError


@contextlib.asynccontextmanager
async def alone(config: BotConfig, name: str, refusal: str) -> AsyncIterator[Store]:
    """`name` is how others see it. Raises ConfigError; where a bot works, with `refusal`, which names its {holder}."""
    with only_bot(config.data_dir):
        async with opened(config) as database:
            bots = Leases(database.engine, f"{socket.gethostname()}, {name}")
            tried = await bots.taken_unless_kept()
            if isinstance(tried, Lease):
                raise ConfigError(refusal.format(holder=tried.holder))
            try:
                async with at_work(config, tried) as store:
                    yield store
            finally:
                await bots.give_back(tried)
