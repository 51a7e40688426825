"""The same answers where no bot runs: this process takes the bot's place for a moment, lock and all."""

import os
import socket

from bot.advance import Advance
from bot.config import BotConfig
from bot.database import at_work, opened, require_record
from bot.fleet import Fleet
from bot.lease import Leases
from bot.lock import only_bot
from bot.speak import speak
from bot.store import windows
from bot.store.leases import Lease
from bot.store.writer import Store
from bot.terminal.answers import Answers
from bot.terminal.server import host_user
from bot.terminal.wire import Reply, Request
from bot.wanted import advance_settings, rule
from wire.configfile import ConfigError


async def answer_offline(config: BotConfig, request: Request) -> Reply:
    """Of now it knows no heartbeat, so nothing is called free. Raises ConfigError."""
    require_record(config)
    with only_bot(config.data_dir):
        async with opened(config) as database:
            bots = Leases(database.engine, f"{socket.gethostname()}, a terminal")
            tried = await bots.taken_unless_kept()
            if isinstance(tried, Lease):
                raise ConfigError(f"the bot works on another host ({tried.holder}): ask there")
            try:
                async with at_work(config, tried) as store:
                    return await _answered(config, store, request)
            finally:
                await bots.give_back(tried)


async def _answered(config: BotConfig, store: Store, request: Request) -> Reply:
    fleet = Fleet(rule(config), await store.read(windows.load_tracks))
    advance = Advance(store, fleet, advance_settings(config))
    await advance.start()
    commands, _ = speak(config, store, fleet, advance, None)
    return await Answers(commands).answer(request, host_user(os.getuid()))
