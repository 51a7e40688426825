"""Bot, broker and agent are killed in the middle of a story, at random moments."""

import asyncio
import json
import os
import random
import signal
from itertools import groupby
from pathlib import Path

import pytest

from demo.gpus import gpu, parked, play
from demo.machine import Program
from tests.flow.conftest import Line
from tests.flow.record import recorded_windows, rows
from wire.messages import Verdict
from wire.reasons import ReasonCode

FIRST_SEED = [1]
MORE_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12)]


async def kill_and_start(program: Program, chance: random.Random) -> None:
    await program.kill()
    await asyncio.sleep(chance.uniform(0, 1))
    await program.start()


async def kill_broker(line: Line, bot: Program) -> None:
    """As soon as there is one that is up: a bot that was just killed has none, one that starts ends without it."""
    await line.until(lambda: killed(line.machine.data_dir / "nats" / "server.pid", bot))


def killed(pid_file: Path, bot: Program) -> bool:
    try:
        pid = int(pid_file.read_text())
        if f"nats-server is up pid={pid} " not in bot.log.read_text():
            return False
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return False
    return True


async def kill_all(line: Line, bot: Program, agent: Program, chance: random.Random) -> None:
    """Each of the three once, in random order at random moments."""
    for what in chance.sample(["bot", "broker", "agent"], 3):
        await asyncio.sleep(chance.uniform(0, 3))
        if what == "broker":
            await kill_broker(line, bot)
        else:
            await kill_and_start(bot if what == "bot" else agent, chance)


@pytest.mark.parametrize("seed", [*FIRST_SEED, *MORE_SEEDS])
async def test_every_window_is_judged_once_and_no_second_card_comes(line, tmp_path, seed):
    chance = random.Random(seed)
    play(tmp_path / "idle.jsonl", gpu(0, 1), parked(1, 1))
    bot = line.machine.bot()
    agent = line.machine.node("gpu-01", collector="replay", replay_file=str(tmp_path / "idle.jsonl"))
    async with line.running(bot, agent):
        await kill_all(line, bot, agent, chance)
        await line.until(lambda: line.cards)
        await kill_all(line, bot, agent, chance)
        restarted = len(line.stored("gpu-01"))
        await line.until(lambda: len(line.stored("gpu-01")) >= restarted + 4)
        await line.until(lambda: states(line) == ["confirmed"])
        await agent.stop()
        state_dir = line.folder / "gpu-01"
        await line.until(lambda: {w.window_number for w in line.stored("gpu-01")} == numbers(state_dir))
        check_record(line)
    assert len(line.cards) == 1
    keys = [one.metadata["event_payload"]["delivery"] for one in line.channel.messages.values() if one.metadata]
    assert len(keys) == len(set(keys)), "a message was posted twice"


def states(line: Line) -> list[str]:
    """Where the GPUs of open cards stand in the bot's database."""
    bodies = rows(line.machine.data_dir, "SELECT body FROM incident WHERE closed_at IS NULL")
    return [gpu["state"] for row in bodies for gpu in json.loads(row["body"])["gpus"]]


def numbers(state_dir) -> set[int]:
    return {number for number, _ in recorded_windows(state_dir)}


def check_record(line: Line) -> None:
    """Nothing lost, nothing twice, and what a death of the agent cut is unknown."""
    stored = line.stored("gpu-01")
    for _, of_spool in groupby(stored, key=lambda one: one.spool_epoch):
        seqs = [one.seq for one in of_spool]
        assert seqs == list(range(1, len(seqs) + 1))
    assert len({one.window_number for one in stored}) == len(stored)
    assert rows(line.machine.data_dir, "SELECT * FROM missing") == []
    assert rows(line.machine.data_dir, "SELECT * FROM rejected") == []
    cut = [one for one in stored if any(r.code is ReasonCode.AGENT_RESTARTED for g in one.gpus for r in g.reasons)]
    assert len(cut) >= 3, "the first start and two deaths of the agent each cut a window"
    assert all(g.verdict is not Verdict.CANDIDATE for one in cut for g in one.gpus)
    assert all(one.gpus[1].verdict is not Verdict.CANDIDATE for one in stored if len(one.gpus) > 1)
