"""The whole product on this machine, with a Slack workspace of its own on loopback."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from demo.fleet import Fleet
from demo.keyboard import keyboard
from demo.page import LARGEST_PORT, PORT, PageCannotListen
from demo.runner import Runner, State
from demo.show import show
from demo.story import Story, StoryError
from demo.workspace import Workspace

Play = Callable[[Fleet, Workspace, Runner], Awaitable[int]]


def _say(words: str) -> None:
    print(words, flush=True)


async def _headless(fleet: Fleet, workspace: Workspace, runner: Runner) -> int:
    """0 when the story happened as it must, 1 otherwise."""
    try:
        await Story(fleet, workspace, runner, _say).play()
    except StoryError as error:
        _say(f"\nThe story went wrong: {error}")
        return 1
    _say("All of it happened as it must.")
    return 0


async def _typed(fleet: Fleet, workspace: Workspace, runner: Runner) -> int:
    await keyboard(fleet, workspace, runner, _say)
    return 0


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: it wants a number from 0 to {LARGEST_PORT}")
    return int(text)


def _page(port: int) -> Play:
    async def play(fleet: Fleet, workspace: Workspace, runner: Runner) -> int:
        try:
            await show(fleet, workspace, runner, port, _say)
        except PageCannotListen as error:
            _say(str(error))
            return 1
        return 0

    return play


def _cancel_once(task: asyncio.Task[int]) -> None:
    """A second Ctrl-C must not cut short what ends the programs."""
    if not task.cancelling():
        task.cancel()


async def _demo(play: Play) -> int:
    """Ctrl-C, SIGTERM and a terminal that is closed end all programs before this returns."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, _cancel_once, task)
    with tempfile.TemporaryDirectory(prefix="gpu-oncall-demo-") as folder:
        async with Workspace() as workspace, Runner(State.WORKING) as runner:
            return await play(Fleet(Path(folder), workspace, runner), workspace, runner)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--headless", action="store_true", help="run the story to its end, print all cards, and stop")
    parser.add_argument("--keyboard", action="store_true", help="no page: what people do is typed here")
    parser.add_argument(
        "--port", type=_port, default=PORT, help="of the page on 127.0.0.1, or the next free one; 0: any"
    )
    options = parser.parse_args()
    play = _headless if options.headless else _typed if options.keyboard else _page(options.port)
    try:
        sys.exit(asyncio.run(_demo(play)))
    except asyncio.CancelledError:
        sys.exit(130)
