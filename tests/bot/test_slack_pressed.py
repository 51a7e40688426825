"""Fifty presses in one second while the bot stores windows as fast as it can."""

import asyncio
import itertools

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
    """How soon, says `make bench ARGS=presses`; the workspace gives up after 3 s, as Slack does."""
    for number in range(10):
        await bot.found(subject=f"gpu-{number:02}/chat")
    await sent(bot)
    storing = asyncio.create_task(Stream(bot).run())
    cards = workspace.channel("gpu-oncall").cards
    people = [workspace.person(name) for name in ("alice", "bob", "carol")]
    presses = [people[n % 3].press(cards[n % 10], "Acknowledge", version=0) for n in range(PRESSES)]
    seen = await asyncio.gather(*presses)
    await workspace.until(lambda: len(workspace.ephemerals) == PRESSES)
    storing.cancel()
    await asyncio.gather(storing, return_exceptions=True)
    await bot.stop()
    assert [one.failure for one in seen] == [None] * PRESSES
    assert sum(outcome == "done" for *_, outcome in await bot.clicks()) == 10
