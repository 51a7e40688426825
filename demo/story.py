"""The first story: three nodes, one really idle GPU, one card, a click, and the GPU is taken."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from itertools import groupby

from bot import clock
from demo.fleet import BUSY, CANDIDATES_CHANNEL, IDLE, PARKED, Fleet
from demo.runner import Runner
from demo.stall_story import StallStory
from demo.workspace import Ephemeral, Message, Workspace
from demo.workspace.transcript import ephemeral_transcript, message_transcript

WINDOWS = 3
DEADLINE_SECONDS = 150.0

Tell = Callable[[str], None]


class StoryError(Exception):
    """The story did not go as it must; the text says where."""


class Story:
    """`tell` hears each step as a sentence, and each state of the card as text."""

    def __init__(self, fleet: Fleet, workspace: Workspace, runner: Runner, tell: Tell) -> None:
        self._second = StallStory(runner, workspace, self._say, tell)
        self._fleet = fleet
        self._workspace = workspace
        self._tell = tell
        self._started = clock.monotonic_seconds()

    async def play(self) -> None:
        """Raises StoryError, with the ends of the logs, where anything else happens."""
        try:
            async with self._fleet.running():
                self._say("the bot with its broker and three nodes are starting")
                self._second.begin()
                card = await self._one_card()
                await self._acknowledged(card)
                await self._why_not()
                await self._taken(card)
                await self._second.play()
        except TimeoutError as error:
            raise StoryError(f"it took too long\n{self._fleet.last_words()}") from error

    async def _one_card(self) -> Message:
        self._say(f"{BUSY} trains; on {PARKED} a process holds 0 MiB at 0 %; {IDLE} is really idle")
        await self._until(lambda: bool(self._cards()))
        (card,) = self._cards()
        before = self._idle_windows(card)
        _must(before >= WINDOWS, f"the card came after {before} idle windows, not {WINDOWS}")
        _must(IDLE in card.text and BUSY not in card.text, f"the card is not about {IDLE}: {card.text}")
        self._say(f"after {before} idle windows in a row: one card, for {IDLE}")
        self._show(card)
        return card

    async def _acknowledged(self, card: Message) -> None:
        seen = await self._workspace.person("alice").press(card, "Acknowledge")
        _must(seen.acked, f"the click was not acknowledged: {seen.failure}")
        await self._until(lambda: "Acknowledged by" in _drawn(card))
        self._say("alice pressed Acknowledge, and the card says so")
        self._show(card)

    async def _why_not(self) -> None:
        """Asked until the node has come: it may need longer to reach the bus than the idle one."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while f"PID {self._fleet.parked.pid}" not in (answer := await self._ask_why()).text:
                await asyncio.sleep(1)
        self._say(f"bob asked /gpu-why {PARKED} 0, and is told of the process")
        self._tell(ephemeral_transcript(answer, self._workspace.names) + "\n")

    async def _ask_why(self) -> Ephemeral:
        seen = await self._workspace.person("bob").command("/gpu-why", f"{PARKED} 0")
        await self._until(lambda: bool(seen.ephemerals))
        return seen.ephemerals[-1]

    async def _taken(self, card: Message) -> None:
        self._fleet.start_job(IDLE)
        self._say(f"somebody starts a job on {IDLE}")
        await self._until(lambda: '"actions"' not in _drawn(card))
        _must(self._cards() == [card], "there is more than one card")
        self._say("the card is closed: the GPU is in use again")
        self._show(card)

    def _cards(self) -> list[Message]:
        return self._workspace.channel(CANDIDATES_CHANNEL).cards

    def _idle_windows(self, card: Message) -> int:
        """Idle windows in a row that the node itself had recorded before the card was posted.

        The longest row: of a window that a busy machine spoils meanwhile the bot may not have heard yet.
        """
        lines = (self._fleet.state_dir(IDLE) / "windows.jsonl").read_text().splitlines()
        windows = [json.loads(line) for line in lines]
        seen = [one["verdict"] for one in windows if datetime.fromisoformat(one["time"]) <= card.versions[0].at]
        return max((len(list(row)) for verdict, row in groupby(seen) if verdict == "candidate"), default=0)

    async def _until(self, condition: Callable[[], bool]) -> None:
        await self._workspace.until(condition, seconds=DEADLINE_SECONDS)

    def _show(self, card: Message) -> None:
        replies = self._workspace.channel(CANDIDATES_CHANNEL).replies(card)
        self._tell(message_transcript(card, replies, self._workspace.names) + "\n")

    def _say(self, words: str) -> None:
        self._tell(f"{clock.monotonic_seconds() - self._started:5.1f} s  {words}")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StoryError(otherwise)


def _drawn(card: Message) -> str:
    return json.dumps(card.blocks)
