"""Fifty presses a second while windows are stored: how soon is each acknowledged, and how soon answered?"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.figure import Figure, percentile
from bench.fleet_windows import GPUS, fleet_windows
from bench.judging import Judging, judging
from bot.ingest import Arrived
from demo.workspace import Workspace
from demo.workspace.people import Seen
from tests.bot.outward import sent
from tests.bot.slack_bot import SlackBot, at_work

_CARDS = 10
_PEOPLE = ("alice", "bob", "carol")


@dataclass(frozen=True)
class Size:
    """`windows_per_second` are offered; what was stored is measured."""

    presses: int = 100
    presses_per_second: int = 50
    windows_per_second: int = 2000
    seconds: int = 5
    repeats: int = 3


@dataclass(frozen=True)
class _Round:
    stored_per_second: float
    acknowledged_seconds: Sequence[float]
    answered_seconds: Sequence[float]


def measure(size: Size = Size()) -> list[Figure]:
    nodes = size.windows_per_second
    messages = fleet_windows(nodes, size.seconds)
    rounds = [asyncio.run(_round(size, messages)) for _ in range(size.repeats)]
    work = (
        f"{size.presses} presses, {size.presses_per_second} a second, on {_CARDS} cards by {len(_PEOPLE)} people "
        f"through Socket Mode, while {size.windows_per_second:,} windows/s of {GPUS} GPUs are offered"
    )
    acknowledged, answered = [one.acknowledged_seconds for one in rounds], [one.answered_seconds for one in rounds]
    return [
        Figure("stored meanwhile", [one.stored_per_second for one in rounds], "windows/s", work, "at least 2,000"),
        Figure("click to acknowledgement, p99", [percentile(one, 99) for one in acknowledged], "s", work, "under 0.5"),
        Figure("click to answer, p50", [percentile(one, 50) for one in answered], "s", work),
        Figure("click to answer, p99", [percentile(one, 99) for one in answered], "s", work, "under 0.5"),
        Figure("click to answer, longest", list(map(max, answered)), "s", work),
    ]


async def _round(size: Size, messages: Sequence[Arrived]) -> _Round:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            judging(Path(folder) / "bot.sqlite") as parts,
            Workspace(rate_limits=False) as workspace,
            at_work(SlackBot(parts.store, parts.fleet, parts.advance, workspace), workspace) as bot,
        ):
            for number in range(_CARDS):
                await bot.found(subject=f"press-{number:02}/chat")
            await sent(bot)
            return await _presses_while_storing(size, messages, parts, workspace)


async def _presses_while_storing(
    size: Size, messages: Sequence[Arrived], parts: Judging, workspace: Workspace
) -> _Round:
    storing = asyncio.create_task(parts.store_at_rate(size.windows_per_second, messages))
    await asyncio.sleep(1)
    seen = await _press_all(size, workspace)
    stored_per_second = await storing
    assert all(one.acked for one in seen)
    await workspace.until(lambda: len(workspace.ephemerals) == size.presses)
    asked = sorted(one.envelope.sent_at for one in seen if one.envelope)
    answers = sorted(call.at for call in workspace.calls if call.method == "response_url")
    acked = [one.envelope.acked_at - one.envelope.sent_at for one in seen if one.envelope and one.envelope.acked_at]
    answered = [later - earlier for earlier, later in zip(asked, answers, strict=True)]
    return _Round(stored_per_second, _seconds(acked), _seconds(answered))


async def _press_all(size: Size, workspace: Workspace) -> list[Seen]:
    loop = asyncio.get_running_loop()
    people = [workspace.person(name) for name in _PEOPLE]
    cards = workspace.channel("gpu-oncall").cards
    begun, presses = loop.time(), []
    for number in range(size.presses):
        await asyncio.sleep(begun + number / size.presses_per_second - loop.time())
        press = people[number % len(people)].press(cards[number % _CARDS], "Acknowledge", version=0)
        presses.append(asyncio.create_task(press))
    return list(await asyncio.gather(*presses))


def _seconds(waits: Sequence[timedelta]) -> list[float]:
    return [wait.total_seconds() for wait in waits]
