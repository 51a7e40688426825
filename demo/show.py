"""`make demo` for people: the fleet runs until Ctrl-C, and a page in the browser is everybody's Slack."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from bot import clock
from bot.manifest import manifest
from bot.render.words import words
from demo.fleet import CANDIDATES_CHANNEL, Fleet
from demo.page import Page
from demo.page.director import Director
from demo.page.steps import Levers, Scenes
from demo.runner import Runner
from demo.workspace import Workspace

WELCOME = """
  {url}     open this in a browser; Ctrl-C ends the demo

A bot, its message broker and three GPU nodes run on this machine, with windows of 3 s in place of 5 min.
Over SSH: forward the port first (ssh -L {port}:127.0.0.1:{port} HOST), or use make demo ARGS=--keyboard."""


async def show(fleet: Fleet, workspace: Workspace, runner: Runner, port: int, tell: Callable[[str], None]) -> None:
    """Until it is cancelled. Raises PageCannotListen when no port is free."""
    started = _process_started_seconds()
    levers = Levers(fleet, runner)
    director = Director(workspace, Scenes(workspace, levers).steps, levers.all)
    features = manifest(words("en"))["features"]
    page = Page(workspace, features["slash_commands"], features["shortcuts"], director)
    async with page.serving(port) as url:
        bound = url.rpartition(":")[2]
        if port and bound != str(port):
            tell(f"Port {port} is in use by another program: the page takes {bound}.")
        tell(WELCOME.format(url=url, port=bound))
        async with fleet.running(), asyncio.TaskGroup() as tasks:
            tasks.create_task(director.run())
            tasks.create_task(_first_card(workspace, started, tell))
            await asyncio.Event().wait()


def _process_started_seconds() -> float:
    """On the clock of `boot_seconds`: people wait while the program loads, too. Now, where the system does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return clock.boot_seconds()


async def _first_card(workspace: Workspace, started: float, tell: Callable[[str], None]) -> None:
    channel = workspace.channel(CANDIDATES_CHANNEL)
    while not channel.cards:
        try:
            await workspace.until(lambda: channel.cards, seconds=60)
        except TimeoutError:
            tell("No card yet after a minute. The nodes' logs are in the demo's folder under the temporary folder.")
    tell(f"The first card is on the page, {clock.boot_seconds() - started:.0f} s after the start.")
