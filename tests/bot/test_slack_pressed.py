"""Fifty presses in one second while the bot stores windows as fast as it can."""

import asyncio
import sys
from datetime import timedelta

import pytest

from bot.ingest import Arrived
from bot.listen import CHUNK
from demo.workspace import Workspace
from tests.bot.outward import sent
from tests.bot.slack_bot import SlackBot
from tests.build import FIRST_WINDOW, START, observation
from wire.messages import Verdict, encode

PRESSES = 50
SECOND = timedelta(seconds=1)
NOISE = """
import select, sys, time
longest = 0.0
print("ready", flush=True)
while True:
    before = time.monotonic()
    ended = select.select([sys.stdin], [], [], 0.01)[0]
    if ended:
        break
    longest = max(longest, time.monotonic() - before - 0.01)
print(longest, flush=True)
"""


@pytest.fixture
async def workspace():
    async with Workspace(rate_limits=False) as workspace:
        yield workspace


class Stream:
    """Windows of other nodes, chunk after chunk, each as soon as the one before is stored."""

    def __init__(self, bot):
        self._bot = bot
        self._chunks = [self._chunk(number) for number in range(120)]
        self.stored = 0

    def _chunk(self, number):
        windows = (
            observation(FIRST_WINDOW + number, [Verdict.HELD] * 8, node=f"node-{node:02}") for node in range(CHUNK)
        )
        first = number * CHUNK + 1
        return [Arrived(f"gpuoncall.obs.{one.node}", first + index, encode(one)) for index, one in enumerate(windows)]

    async def run(self):
        for chunk in self._chunks:
            taken = await self._bot.ingest.take("OBS", START, chunk)
            self.stored += taken.stored


class Noise:
    """How late the machine wakes a process that does nothing but sleep: that much is not the bot's."""

    async def __aenter__(self):
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        self._process = await asyncio.create_subprocess_exec(sys.executable, "-c", NOISE, **pipes)
        await self._process.stdout.readline()
        return self

    async def __aexit__(self, *error):
        out, _ = await self._process.communicate(b"end\n")
        self.longest = timedelta(seconds=float(out))


async def test_each_of_fifty_presses_is_acknowledged_and_answered_within_a_second(store, fleet, advance, workspace):
    bot = SlackBot(store, fleet, advance, workspace)
    bot.start()
    await workspace.until_connected(sockets=2)
    for number in range(10):
        await bot.found(subject=f"gpu-{number:02}/chat")
    await sent(bot)
    stream = Stream(bot)
    storing = asyncio.create_task(stream.run())
    cards, people = (
        workspace.channel("gpu-oncall").cards,
        [workspace.person(name) for name in ("alice", "bob", "carol")],
    )
    async with Noise() as noise:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        presses = []
        for number in range(PRESSES):
            await asyncio.sleep(max(0.0, begun + number / PRESSES - loop.time()))
            press = people[number % 3].press(cards[number % 10], "Acknowledge", version=0)
            presses.append(asyncio.create_task(press))
        seen = await asyncio.gather(*presses)
        await workspace.until(lambda: len(workspace.ephemerals) == PRESSES)
    still_storing = not storing.done()
    storing.cancel()
    await asyncio.gather(storing, return_exceptions=True)
    await bot.stop()
    assert still_storing, "the windows were too few"
    assert all(one.acked for one in seen)
    acked = [one.envelope.acked_at - one.envelope.sent_at for one in seen]
    answers = [call for call in workspace.calls if call.method == "response_url"]
    asked = [one.envelope.sent_at for one in seen]
    pairs = zip(sorted(asked), sorted(call.at for call in answers), strict=True)
    answered = [later - earlier for earlier, later in pairs]
    limit = SECOND + noise.longest
    figures = f"acked {max(acked)}, answered {max(answered)}, noise {noise.longest}, stored {stream.stored} windows"
    assert sum(wait < limit for wait in acked) == PRESSES, figures
    assert sum(wait < limit for wait in answered) == PRESSES, figures
    assert sum(outcome == "done" for *_, outcome in await bot.clicks()) == 10
