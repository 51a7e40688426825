"""Slack refuses with 429 while windows are stored and cards wait: what does that cost, and how soon do cards come?"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from bench.fleet_windows import GPUS, fleet_windows
from bench.judging import Judging, judging
from bot.ingest import Arrived
from bot.outbox.settings import PACES
from demo.workspace import Workspace
from tests.bot.outward import Bot

_DEADLINE_SECONDS = 120.0
_POST = "chat.postMessage"


@dataclass(frozen=True)
class Size:
    """`cards` are fewer than would be put together on one. Slack refuses everything for `refused_seconds`."""

    cards: int = 12
    refused_seconds: int = 5
    windows_per_second: int = 2000
    repeats: int = 2


@dataclass(frozen=True)
class _Round:
    stored_per_second: float
    cards_per_minute: float
    refusals: int


def measure(size: Size = Size()) -> list[Figure]:
    messages = fleet_windows(size.windows_per_second, size.refused_seconds)
    rounds = [asyncio.run(_round(size, messages)) for _ in range(size.repeats)]
    work = (
        f"every call is refused with 429 for {size.refused_seconds} s, in which {size.cards} cards become due and "
        f"{size.windows_per_second:,} windows/s of {GPUS} GPUs are offered"
    )
    after = (
        f"from the end of the refusals to the last of {size.cards} cards, at Slack's limit of one a second in a channel"
    )
    return [
        Figure("stored while Slack says 429", _all(rounds, "stored_per_second"), "windows/s", work, "at least 2,000"),
        Figure("cards after 429", _all(rounds, "cards_per_minute"), "cards/min", f"{after}; each once", "at least 40"),
        Figure("calls that Slack refused", _all(rounds, "refusals"), "calls", "the same: what was tried in vain"),
    ]


def _all(rounds: Sequence[_Round], name: str) -> list[float]:
    return [getattr(one, name) for one in rounds]


async def _round(size: Size, messages: Sequence[Arrived]) -> _Round:
    with tempfile.TemporaryDirectory() as folder:
        async with judging(Path(folder) / "bot.sqlite") as parts, Workspace(rate_limits=True) as workspace:
            bot = Bot(parts.store, parts.fleet, parts.advance, workspace, paces=PACES)
            bot.start()
            try:
                return await _refused(size, messages, parts, workspace, bot)
            finally:
                await bot.stop()


async def _refused(size: Size, messages: Sequence[Arrived], parts: Judging, workspace: Workspace, bot: Bot) -> _Round:
    loop, home = asyncio.get_running_loop(), workspace.channel("gpu-oncall")
    workspace.faults.rate_limited("*", retry_after=1, times=None)
    begun = loop.time()
    storing = asyncio.create_task(parts.store_at_rate(size.windows_per_second, messages))
    for number in range(size.cards):
        await bot.found(subject=f"limit-{number:02}/chat")
    stored_per_second = await storing
    await asyncio.sleep(begun + size.refused_seconds - loop.time())
    await workspace.until(lambda: _refusals(workspace), _DEADLINE_SECONDS)
    workspace.faults.clear()
    ended = loop.time()
    await workspace.until(lambda: len(home.cards) >= size.cards, _DEADLINE_SECONDS)
    assert len(home.cards) == size.cards
    return _Round(stored_per_second, size.cards * 60 / (loop.time() - ended), _refusals(workspace))


def _refusals(workspace: Workspace) -> int:
    return sum(call.outcome == "ratelimited" for call in workspace.calls)
