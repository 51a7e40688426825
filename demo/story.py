"""The first story: three nodes, one really idle GPU, one card, a click, and the GPU is taken."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from bot import clock
from demo.gpus import gpu, parked, play, training
from demo.machine import Machine, Program
from demo.workspace import Message, Workspace
from demo.workspace.transcript import channel_transcript

CHANNEL = "gpu-oncall"
BUSY, PARKED, IDLE = "gpu-01", "gpu-02", "gpu-03"
WINDOWS = 3
AGENT = {
    "mode": "demo",
    "collector": "replay",
    "window": "3s",
    "sample_every": "250ms",
    "heartbeat_every": "1s",
}
BOT = {"mode": "demo", "candidates": {"gather": "1s"}}
DEADLINE_SECONDS = 60.0

Tell = Callable[[str], None]


class StoryError(Exception):
    """The story did not go as it must; the text says where."""


class Story:
    """`tell` hears each step as a sentence. The workspace holds all that was said when `play` returns."""

    def __init__(self, folder: Path, workspace: Workspace, tell: Tell) -> None:
        self._folder = folder
        self._workspace = workspace
        self._tell = tell
        self._started = clock.monotonic_seconds()
        channel = workspace.channel(CHANNEL)
        tokens = {"SLACK_BOT_TOKEN": workspace.bot_token, "SLACK_APP_TOKEN": workspace.app_token}
        slack = {"api_url": workspace.api_url, "channels": {"default": channel.id}, "edit_every": "1s"}
        self._machine = Machine(folder, agent=AGENT, bot={**BOT, "slack": slack}, slack=tokens)

    async def play(self) -> None:
        """Raises StoryError, with the end of the logs, where anything else happens."""
        async with self._running():
            card = await self._one_card()
            await self._acknowledged(card)
            await self._why_not()
            await self._taken(card)

    def transcript(self) -> str:
        names = {user.id: user.name for user in self._workspace.users.values()}
        return channel_transcript(self._workspace.channel(CHANNEL), names)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        nodes = [self._node(name, number) for number, name in enumerate((BUSY, PARKED, IDLE), start=1)]
        programs = [self._machine.bot(), *nodes]
        try:
            for program in programs:
                await program.start()
            self._say("the bot with its broker and three nodes are starting")
            yield
        except TimeoutError as error:
            raise StoryError(f"it took too long\n{_last_words(programs)}") from error
        finally:
            for program in reversed(programs):
                await program.stop()

    def _node(self, name: str, number: int) -> Program:
        readings = {BUSY: training(0, number), PARKED: parked(0, number), IDLE: gpu(0, number)}
        play(self._recording(name), readings[name])
        return self._machine.node(name, replay_file=str(self._recording(name)))

    def _recording(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"

    async def _one_card(self) -> Message:
        self._say(f"{BUSY} trains; on {PARKED} a process holds 0 MiB at 0 %; {IDLE} is really idle")
        await self._until(lambda: bool(self._cards()))
        (card,) = self._cards()
        before = self._idle_windows(card)
        _must(before >= WINDOWS, f"the card came after {before} idle windows, not {WINDOWS}")
        _must(IDLE in card.text and BUSY not in card.text, f"the card is not about {IDLE}: {card.text}")
        self._say(f"after {before} idle windows in a row: one card, for {IDLE}")
        return card

    async def _acknowledged(self, card: Message) -> None:
        seen = await self._workspace.person("alice").press(card, "Acknowledge")
        _must(seen.acked, f"the click was not acknowledged: {seen.failure}")
        await self._until(lambda: "acknowledged" in _shown(card).lower())
        self._say("alice pressed Acknowledge, and the card says so")

    async def _why_not(self) -> None:
        seen = await self._workspace.person("bob").command("/gpu-why", f"{PARKED} 0")
        await self._until(lambda: bool(seen.ephemerals))
        self._say(f"bob asked /gpu-why {PARKED} 0:\n{_indented(seen.ephemerals[-1].text)}")

    async def _taken(self, card: Message) -> None:
        play(self._recording(IDLE), training(0, 3))
        self._say(f"somebody starts a job on {IDLE}")
        await self._until(lambda: '"actions"' not in _shown(card))
        _must(self._cards() == [card], "there is more than one card")
        self._say("the card is closed: the GPU is in use again")

    def _cards(self) -> list[Message]:
        return self._workspace.channel(CHANNEL).cards

    def _idle_windows(self, card: Message) -> int:
        """Idle windows in a row that the node itself had recorded before the card was posted."""
        streak = 0
        for line in (self._folder / IDLE / "windows.jsonl").read_text().splitlines():
            window = json.loads(line)
            if datetime.fromisoformat(window["time"]) <= card.versions[0].at:
                streak = streak + 1 if window["verdict"] == "candidate" else 0
        return streak

    async def _until(self, condition: Callable[[], bool]) -> None:
        await self._workspace.until(condition, seconds=DEADLINE_SECONDS)

    def _say(self, words: str) -> None:
        self._tell(f"{clock.monotonic_seconds() - self._started:5.1f} s  {words}")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StoryError(otherwise)


def _shown(card: Message) -> str:
    return json.dumps(card.blocks)


def _indented(text: str) -> str:
    return "\n".join(f"         {line}" for line in text.splitlines())


def _last_words(programs: list[Program]) -> str:
    tails = [(program.name, program.log.read_text(errors="replace").splitlines()[-15:]) for program in programs]
    return "\n".join(f"--- {name}\n" + "\n".join(lines) for name, lines in tails)
