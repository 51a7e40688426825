"""From the last window's publication to the card in Slack: the bot as a process, the node and Slack on loopback."""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

import yaml

from bench.figure import Figure, percentile
from bot.broker.nodes import register_node
from demo.machine import Machine
from demo.workspace import Workspace
from tests.build import FIRST_WINDOW, heartbeat, observation
from tests.nats_server import connected, fast_link, until
from wire import nkey, subjects
from wire.acks import Ack
from wire.link import Link
from wire.messages import Observation, Verdict, encode

_CHANNEL = "gpu-oncall"
_GATHER_SECONDS = 1
_WINDOWS = 3
_DEADLINE_SECONDS = 180.0
_BEAT_EVERY_SECONDS = 10.0
_APART_SECONDS = 0.25
_ACK_DEADLINE = timedelta(seconds=5)
_VERDICTS = [Verdict.CANDIDATE] + [Verdict.HELD] * 7


@dataclass(frozen=True)
class Size:
    """`cards` of one bot: fewer than would be put together on one card for many, which is edited every 10 s.

    Nor more than the bot posts at once: after four it keeps to Slack's one message a second.
    """

    bots: int = 25
    cards: int = 4


def measure(size: Size = Size()) -> list[Figure]:
    seconds = seconds_to_card(size)
    work = (
        f"{size.bots} new bots, {size.cards} nodes each, {_APART_SECONDS:g} s apart, 8 GPUs of which one is free; "
        f"gathering set to {_GATHER_SECONDS} s and subtracted"
    )
    late = [percentile(seconds, 99)]
    return [
        Figure("last window published to card posted", seconds, "s", work),
        Figure("last window published to card posted, p99", late, "s", f"of these {len(seconds)} cards", "under 1"),
    ]


@cache
def seconds_to_card(size: Size) -> Sequence[float]:
    """Once for all who compare with it."""
    return [one for _ in range(size.bots) for one in asyncio.run(_measure(size))]


async def _measure(size: Size) -> list[float]:
    with tempfile.TemporaryDirectory() as name:
        async with Workspace() as workspace:
            channel = workspace.channel(_CHANNEL)
            machine = _machine(Path(name) / "machine", workspace, channel.id)
            seeds = {f"gpu-{number:02d}": nkey.generate_seed() for number in range(size.cards)}
            for node, seed in seeds.items():
                register_node(machine.data_dir, node, nkey.public_key(seed))
            bot = machine.bot()
            await bot.start()
            try:
                await until(lambda: "bot runs" in bot.log.read_text(), "the bot runs", _DEADLINE_SECONDS)
                cards = [
                    _card(workspace, _server(machine), node, seed, number * _APART_SECONDS)
                    for number, (node, seed) in enumerate(seeds.items())
                ]
                return await asyncio.gather(*cards)
            except BaseException:
                print(bot.log.read_text()[-4000:])
                raise
            finally:
                await bot.stop()


def _machine(folder: Path, workspace: Workspace, channel: str) -> Machine:
    slack = {"api_url": workspace.api_url, "channels": {"default": channel}}
    bot = {"mode": "live", "candidates": {"gather": f"{_GATHER_SECONDS}s"}, "slack": slack}
    tokens = {"SLACK_BOT_TOKEN": workspace.bot_token, "SLACK_APP_TOKEN": workspace.app_token}
    return Machine(folder, agent={}, bot=bot, slack=tokens)


def _server(machine: Machine) -> str:
    config = yaml.safe_load((machine.folder / "bot.yaml").read_text())
    return f"nats://{config['bot']['bus']['embedded']['listen']}"


async def _card(workspace: Workspace, server: str, node: str, seed: str, after_seconds: float) -> float:
    """Seconds from the publication of the window that makes the GPU free, without the time of gathering."""
    reports = [observation(FIRST_WINDOW + number, _VERDICTS, node=node) for number in range(_WINDOWS)]
    async with _node_link(server, node, seed) as link:
        for report in reports[:-1]:
            await _publish(link, report)
        await asyncio.sleep(after_seconds)
        begin = time.perf_counter()
        await _publish(link, reports[-1])
        beating = asyncio.create_task(_beat(link, node, reports[-1].window_number))
        try:
            await workspace.until(lambda: _names(workspace, node), _DEADLINE_SECONDS)
        finally:
            beating.cancel()
        return time.perf_counter() - begin - _GATHER_SECONDS


async def _beat(link: Link, node: str, window: int) -> None:
    """As a node does: a bot that a busy machine holds up calls nothing free by a heartbeat that is a minute old."""
    while True:
        beat = heartbeat(window, _VERDICTS, node=node)
        assert await link.publish_core(subjects.heartbeat(node), encode(beat))
        await asyncio.sleep(_BEAT_EVERY_SECONDS)


def _names(workspace: Workspace, node: str) -> bool:
    return any(node in json.dumps(card.blocks) for card in workspace.channel(_CHANNEL).cards)


def _node_link(server: str, node: str, seed: str) -> contextlib.AbstractAsyncContextManager[Link]:
    return connected(fast_link([server], seed, subjects.inbox(node), node), _DEADLINE_SECONDS)


async def _publish(link: Link, report: Observation) -> None:
    """As soon as the stream takes it: at first the bot may not have made it yet."""
    message_id = subjects.message_id(report.node, report.spool_epoch, report.seq)
    subject, body = subjects.observations(report.node), encode(report)

    async def is_taken() -> bool:
        return isinstance(await link.publish_acked(subject, body, message_id, _ACK_DEADLINE), Ack)

    await until(is_taken, "the stream takes a window", _DEADLINE_SECONDS)
