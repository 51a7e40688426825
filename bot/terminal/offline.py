"""The same answers where no bot runs: this process takes the bot's place for a moment, lock and all."""

import os

from bot.advance import Advance
from bot.config import BotConfig
from bot.database import database_file, opened
from bot.fleet import Fleet
from bot.lock import only_bot
from bot.speak import speak
from bot.store import windows
from bot.terminal.answers import Answers
from bot.terminal.server import host_user
from bot.terminal.wire import Reply, Request
from bot.wanted import advance_settings, rule
from wire.configfile import ConfigError


async def answer_offline(config: BotConfig, request: Request) -> Reply:
    """Of now it knows no heartbeat, so nothing is called free. Raises ConfigError."""
    if not database_file(config).exists():
        raise ConfigError(f"there is no record yet: {database_file(config)} is made when the bot first runs")
    with only_bot(config.data_dir):
        async with opened(config) as store:
            fleet = Fleet(rule(config), await store.read(windows.load_tracks))
            advance = Advance(store, fleet, advance_settings(config))
            await advance.start()
            commands, _ = speak(config, store, fleet, advance, None)
            return await Answers(commands).answer(request, host_user(os.getuid()))
