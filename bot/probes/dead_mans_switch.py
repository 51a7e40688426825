"""Pings `heartbeat_url` every minute while the bot works: its silence is the alarm about ourselves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp

log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
ANSWER_SECONDS = 10.0


class DeadMansSwitch:
    """`why_not` gives the reasons why the bot does not work, none when it does. The address may hold a secret."""

    def __init__(self, url: str, why_not: Callable[[], Awaitable[list[str]]]) -> None:
        self._url = url
        self._why_not = why_not
        self._told: str | None = None

    async def run(self, every_seconds: float = EVERY_SECONDS) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ANSWER_SECONDS)) as session:
            while True:
                reasons = await self._why_not()
                self._tell(f"heartbeat_url is not called: {reasons[0]}" if reasons else await self._ping(session))
                await asyncio.sleep(every_seconds)

    async def _ping(self, session: aiohttp.ClientSession) -> str | None:
        """None when it was taken."""
        try:
            async with session.get(self._url) as response:
                return None if response.status < 400 else f"heartbeat_url answers {response.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return f"heartbeat_url cannot be reached: {type(error).__name__}"

    def _tell(self, why: str | None) -> None:
        if why and why != self._told:
            log.error("%s", why)
        elif why is None and self._told:
            log.info("heartbeat_url is called again")
        self._told = why
