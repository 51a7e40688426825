"""The story beside the workspace: its steps with a pause and a speed, and levers to move the fleet."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from bot import clock
from demo.workspace import Workspace
from demo.workspace.state import Json

TICK_SECONDS = 0.1
READING_SECONDS = 8.0  # between two steps, at speed 1
SPEEDS = (0.5, 1.0, 2.0, 4.0)
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True)
class Step:
    """`act` None: it happens by itself. `has_happened` is asked after every change; `channel` is where to look."""

    title: str
    look: str
    has_happened: Callable[[], bool]
    act: Callable[[], Awaitable[None]] | None = None
    channel: str = ""


@dataclass(frozen=True)
class Lever:
    """Something in the fleet that people can change; `is_on` tells how it stands, `words` name both ways."""

    name: str
    about: str
    is_on: Callable[[], bool]
    words: tuple[str, str]
    pull: Callable[[], None]


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of `play`, `pause`, `next`, `speed` (with `speed`) and `lever` (with its name)."""

    what: str
    speed: float = 1.0
    lever: str = ""


class How(StrEnum):
    COMING, NOW, LATE, DONE = "coming", "now", "late", "done"


class Director:
    """`run` plays until the last step; a pause holds the next step, never the bot or the nodes."""

    def __init__(
        self,
        workspace: Workspace,
        steps: Sequence[Step],
        levers: Sequence[Lever] = (),
        reading_seconds: float = READING_SECONDS,
    ) -> None:
        self._workspace = workspace
        self._steps = steps
        self._reading_seconds = reading_seconds
        self._levers = {lever.name: lever for lever in levers}
        self._how = [How.COMING] * len(steps)
        self._seconds: list[float | None] = [None] * len(steps)
        self._started = clock.monotonic_seconds()
        self._is_playing = True
        self._is_pushed = False
        self._speed = 1.0
        self._why_paused = ""

    async def run(self) -> None:
        for number, step in enumerate(self._steps):
            if number and step.act is not None:
                await self._until_due(step)
            self._mark(number, How.NOW)
            await self._act(step)
            await self._until_happened(number, step)
            self._mark(number, How.DONE)

    def told(self) -> Json:
        """What the page shows."""
        steps = [
            {"title": step.title, "look": step.look, "channel": step.channel, "how": how, "seconds": seconds}
            for step, how, seconds in zip(self._steps, self._how, self._seconds, strict=True)
        ]
        levers = [
            {"name": one.name, "about": one.about, "is_on": one.is_on(), "words": one.words}
            for one in self._levers.values()
        ]
        return {
            "steps": steps,
            "levers": levers,
            "is_playing": self._is_playing,
            "why_paused": self._why_paused,
            "speed": self._speed,
            "speeds": SPEEDS,
        }

    def obey(self, asked: Ask) -> str | None:
        """None, or a sentence that says what was wrong."""
        if asked.what in ("play", "pause"):
            self._is_playing, self._why_paused = asked.what == "play", ""
        elif asked.what == "next":
            self._is_pushed = True
        elif asked.what == "speed" and asked.speed in SPEEDS:
            self._speed = asked.speed
        elif asked.what == "lever" and asked.lever in self._levers:
            self._levers[asked.lever].pull()
            self.somebody_acted()
        else:
            return "The story knows play, pause, next, speed and lever."
        self._workspace.changed()
        return None

    def somebody_acted(self) -> None:
        """Whoever acts wants to act: the story must not press the button that they are about to press."""
        if self._is_playing and self._how[-1:] != [How.DONE]:
            self._is_playing, self._why_paused = False, "Paused, because you acted. Press Play to go on."
            self._workspace.changed()

    async def _until_due(self, step: Step) -> None:
        """Reading time has passed while it played, or somebody asked for the next step, or did it."""
        left = self._reading_seconds
        while left > 0 and not self._is_pushed and not step.has_happened():
            await asyncio.sleep(TICK_SECONDS)
            left -= TICK_SECONDS * self._speed if self._is_playing else 0
        self._is_pushed = False

    async def _act(self, step: Step) -> None:
        """What is not there to be pressed was pressed by somebody else, or comes later: the step waits."""
        if step.act is not None and not step.has_happened():
            with contextlib.suppress(LookupError):
                await step.act()

    async def _until_happened(self, number: int, step: Step) -> None:
        while True:
            try:
                await self._workspace.until(step.has_happened, PATIENCE_SECONDS)
                return
            except TimeoutError:
                self._mark(number, How.LATE)
                await self._act(step)

    def _mark(self, number: int, how: How) -> None:
        self._how[number] = how
        if how is How.DONE:
            self._seconds[number] = clock.monotonic_seconds() - self._started
        self._workspace.changed()
