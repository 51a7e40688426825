"""The same answers where no bot runs: this process takes the bot's place for a moment, lock and all."""

import os

from bot.advance import Advance
from bot.alone import alone
from bot.config import BotConfig
from bot.database import require_record
from bot.fleet import Fleet
from bot.speak import speak
from bot.store import windows
from bot.store.writer import Store
from bot.terminal.answers import Answers
from bot.terminal.server import host_user
from bot.terminal.wire import Reply, Request
from bot.wanted import advance_settings, rule


async def answer_offline(config: BotConfig, request: Request) -> Reply:
    """Of now it knows no heartbeat, so nothing is called free. Raises ConfigError."""
    require_record(config)
    async with alone(config, "a terminal", "the bot works on another host ({holder}): ask there") as store:
        return await _answered(config, store, request)


async def _answered(config: BotConfig, store: Store, request: Request) -> Reply:
    fleet = Fleet(rule(config), await store.read(windows.load_tracks))
    advance = Advance(store, fleet, advance_settings(config))
    await advance.start()
    commands, _ = speak(config, store, fleet, advance, None)
    return await Answers(commands).answer(request, host_user(os.getuid()))
