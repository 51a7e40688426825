"""Fifty presses in one second while the bot stores windows as fast as it can."""

import asyncio
import itertools
import time
from datetime import timedelta

from bot.ingest import Arrived
from bot.listen import CHUNK
from tests.bot.outward import sent
from tests.build import FIRST_WINDOW, START, observation
from wire.messages import Verdict, encode

PRESSES = 50


class Stream:
    """Windows of other nodes, chunk after chunk, each as soon as the one before is stored, and all over again."""

    def __init__(self, bot):
        self._bot = bot
        self._chunks = [self._chunk(number) for number in range(120)]

    def _chunk(self, number):
        windows = (
            observation(FIRST_WINDOW + number, [Verdict.HELD] * 8, node=f"node-{node:02}") for node in range(CHUNK)
        )
        first = number * CHUNK + 1
        return [Arrived(f"gpuoncall.obs.{one.node}", first + index, encode(one)) for index, one in enumerate(windows)]

    async def run(self):
        for chunk in itertools.cycle(self._chunks):
            await self._bot.ingest.take("OBS", START, chunk)


async def test_each_of_fifty_presses_is_acknowledged_in_slacks_time_and_answered_once(bot, workspace):
    """How soon, says `make bench ARGS=presses`. Counted is our own processor time: others may keep it busy."""
    slacks_time, workspace.sockets.ack_within = workspace.sockets.ack_within, timedelta(seconds=60)
    for number in range(10):
        await bot.found(subject=f"gpu-{number:02}/chat")
    await sent(bot)
    storing = asyncio.create_task(Stream(bot).run())
    cards = workspace.channel("gpu-oncall").cards
    people = [workspace.person(name) for name in ("alice", "bob", "carol")]

    async def pressed(number):
        began_seconds = time.process_time()
        seen = await people[number % 3].press(cards[number % 10], "Acknowledge", version=0)
        return seen.failure, time.process_time() - began_seconds

    seen = await asyncio.gather(*map(pressed, range(PRESSES)))
    await workspace.until(lambda: len(workspace.ephemerals) == PRESSES)
    storing.cancel()
    await asyncio.gather(storing, return_exceptions=True)
    await bot.stop()
    assert [failure for failure, _ in seen] == [None] * PRESSES
    assert max(seconds for _, seconds in seen) < slacks_time.total_seconds()
    assert sum(outcome == "done" for *_, outcome in await bot.clicks()) == 10
