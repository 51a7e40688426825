"""Whole stories on real parts: our programs as processes, a real nats-server, a Slack workspace on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from demo.machine import Machine, Program
from demo.workspace import Message, Workspace
from tests.flow.record import stored_windows
from wire.messages import Observation

CHANNEL = "gpu-oncall"
T = TypeVar("T")


@pytest.fixture
async def workspace():
    async with Workspace() as workspace:
        yield workspace


class Line:
    """A machine with a bot, and what people see of it. Windows of 2 s, samples every 0.2 s."""

    def __init__(self, folder: Path, workspace: Workspace, mode: str = "demo", **settings: object) -> None:
        self.folder = folder
        self.workspace = workspace
        self.channel = workspace.channel(CHANNEL)
        agent = {"mode": "demo", "window": "2s", "sample_every": "200ms", "heartbeat_every": "1s"}
        slack = {"api_url": workspace.api_url, "channels": {"default": self.channel.id}, "edit_every": "1s"}
        bot = {"mode": mode, "candidates": {"gather": "500ms"}, "slack": slack, **settings}
        tokens = {"SLACK_BOT_TOKEN": workspace.bot_token, "SLACK_APP_TOKEN": workspace.app_token}
        self.machine = Machine(folder, agent=agent, bot=bot, slack=tokens)

    @property
    def cards(self) -> list[Message]:
        return self.channel.cards

    @contextlib.asynccontextmanager
    async def running(self, *programs: Program) -> AsyncIterator[None]:
        """Starts them in order; ends them at the end, and shows their logs where the test failed."""
        try:
            for program in programs:
                await program.start()
            yield
        except BaseException:
            for program in programs:
                print(f"--- {program.name}\n{program.log.read_text(errors='replace')[-4000:]}")
            raise
        finally:
            for program in reversed(programs):
                await program.stop()

    @contextlib.asynccontextmanager
    async def node_running(self, agent: Program) -> AsyncIterator[None]:
        """Started when it can reach the bus at once: a second attempt may take it long."""
        await self.machine.until_bus_listens()
        async with self.running(agent):
            yield

    async def until(self, condition: Callable[[], T], seconds: float = 150.0) -> T:
        """The first true value; looks four times a second, since a database tells nobody that it changed."""
        async with asyncio.timeout(seconds):
            while not (value := condition()):
                await asyncio.sleep(0.25)
            return value

    def stored(self, node: str) -> list[Observation]:
        """Every window of the node that the bot has stored, by spool and seq."""
        return stored_windows(self.machine.data_dir, node)


@pytest.fixture
def line(tmp_path, workspace):
    return Line(tmp_path / "machine", workspace)
