"""The whole product on this machine, with a Slack workspace of its own on loopback."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from demo.fleet import Fleet
from demo.hanging import Doing, Runner
from demo.keyboard import keyboard
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


async def _for_people(fleet: Fleet, workspace: Workspace, runner: Runner) -> int:
    await keyboard(fleet, workspace, runner, _say)
    return 0


async def _demo(play: Play) -> int:
    """Ctrl-C and SIGTERM end all programs before this returns."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with tempfile.TemporaryDirectory(prefix="gpu-oncall-demo-") as folder:
        async with Workspace() as workspace, Runner(Doing.WORKING) as runner:
            return await play(Fleet(Path(folder), workspace, runner.url), workspace, runner)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--headless", action="store_true", help="run the story to its end, print all cards, and stop")
    play = _headless if parser.parse_args().headless else _for_people
    try:
        sys.exit(asyncio.run(_demo(play)))
    except asyncio.CancelledError:
        sys.exit(130)


if __name__ == "__main__":
    main()
