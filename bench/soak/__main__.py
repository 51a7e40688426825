"""`make soak`: agent and bot over and over, side by side; ends with 1 when something grew more than it may."""

import argparse
import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path

from bench.page import PAGE, write_section
from bench.soak import agent, bot
from bench.soak.row import Row, broken, table
from bench.spent import one_core, yardstick_seconds

_HEAD = """\
## make soak

`make soak` prints this table (about six minutes), `make soak ARGS=--write` writes this section,
`make soak ARGS="--samples=1000 --rounds=40"` takes a minute. It ends with 1 when a figure at the end is not as wanted.
The tests do the same with 300 samples and 24 rounds.

The agent is the whole program on a fake driver with 8 GPUs, of which four are held: it samples as fast as it can,
closes a window each second and sends ten heartbeats. The bot is the real one with its own nats-server and Slack on
loopback; in a round all 64 GPUs of 8 nodes become free and are taken, so that 8 cards are opened and closed. It keeps
windows for 2 s. Both run at the same time. "Middle" is after half of the samples and half of the rounds: by then
everything is loaded and every cache is full, and what grows from there would grow for ever.

"""


def main(given: Sequence[str] | None = None) -> None:
    arguments = _arguments(given)
    logging.basicConfig(level=logging.ERROR)
    print(f"soaking, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(_side_by_side(Path(folder), arguments.samples, arguments.rounds))
    text = f"{table(rows)}\n{_noise()}\n"
    print(text)
    if arguments.write:
        write_section("soak", _HEAD + text)
    if sentences := broken(rows):
        raise SystemExit("\n".join(["it grew:", *sentences]))


async def _side_by_side(folder: Path, samples: int, rounds: int) -> list[Row]:
    """Where one fails the other one is ended too."""
    (folder / "agent").mkdir()
    async with asyncio.TaskGroup() as tasks:
        of_agent = tasks.create_task(_timed("the agent's samples", agent.measured(folder / "agent", samples)))
        of_bot = tasks.create_task(_timed("the bot's rounds", bot.measured(folder / "bot", rounds)))
    return [*of_agent.result(), *of_bot.result()]


async def _timed(what: str, work: Awaitable[list[Row]]) -> list[Row]:
    begun = time.monotonic()
    rows = await work
    print(f"{what} took {time.monotonic() - begun:.0f} s", flush=True)
    return rows


def _noise() -> str:
    with one_core():
        yardstick = yardstick_seconds()
    return (
        f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; 2 million additions took {yardstick:.3f} s of CPU."
    )


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--samples", type=_number, default=100_000, help="of the agent, at least 10")
    parser.add_argument("--rounds", type=_number, default=240, help="of the bot, at least 10")
    parser.add_argument("--write", action="store_true", help=f"write the table into docs/{PAGE.name}")
    return parser.parse_args(given)


def _number(text: str) -> int:
    number = int(text)
    if number < agent.POINTS:
        raise argparse.ArgumentTypeError(f"{number} is too few to have a middle: at least {agent.POINTS}")
    return number


if __name__ == "__main__":
    main()
