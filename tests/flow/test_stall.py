"""The field report's long hang with shortened clocks: the driver is fine, the API answers, and no work gets done."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from demo.runner import Process, Runner, State
from tests.fake_nvidia_smi import Answer, FakeNvidiaSmi
from tests.fake_nvml import fake_uuid
from tests.flow.conftest import Line
from tests.flow.record import rows

NODE = "gpu-07"
# A tick of 0.5 s instead of 30 s makes the node's own pauses between canaries as much shorter.
AGENT = {"collector": "nvidia-smi", "sample_every": "1s", "runners_every": "500ms"}
STALL = {"stalled_fast": "6s", "stalled_slow_a": "20s", "idle_settles": "10s"}


def watched(name: str, url: str, **more: object) -> dict[str, object]:
    return {"name": name, "preset": "vllm", "url": url, "canary": {"first_token_timeout": "5s"}, **more}


def held_by(pid: int, folder: Path) -> FakeNvidiaSmi:
    """A driver that answers well: one GPU whose memory the runner holds, at 0 %."""
    smi, uuid = FakeNvidiaSmi(folder), fake_uuid(0)
    smi.answer(Answer(f"0, {uuid}, 0, 61440, 81559\n"), Answer(f"{uuid}, {pid}, python, 61440\n"))
    return smi


def stall_cards(line: Line):
    """In a container there is one more card: who uses the GPUs cannot be proved there."""
    return [card for card in line.cards if "FREE" not in card.text and not card.text.startswith("BLIND")]


async def test_a_runner_that_hangs_behind_a_good_api_is_found_told_once_and_told_to_be_over(workspace, tmp_path):
    line = Line(tmp_path / "machine", workspace, stall=STALL)
    (tmp_path / "queue").write_text("0\n")
    async with Process("vllm", State.WORKING) as chat, Runner() as spare, Runner(State.HUNG_AT_ZERO) as queued:
        (tmp_path / "pid").write_text(str(chat.pid))
        runners = [
            watched("chat", chat.url, state={"pid_file": str(tmp_path / "pid")}),
            watched("spare", spare.url),
            watched("queued", queued.url, demand={"file": str(tmp_path / "queue")}),
        ]
        agent = line.machine.node(NODE, held_by(chat.pid, tmp_path).env, runners=runners, **AGENT)
        bot = line.machine.bot()
        async with line.running(bot), line.node_running(agent):
            await line.until(lambda: line.stored(NODE) and line.stored(NODE)[-1].ticks)
            assert await chat.generations() == []  # nobody asks a runner that works
            await chat.put(State.HUNG_AT_ZERO)
            (card,) = await line.until(lambda: stall_cards(line))
            assert card.text.startswith(f"STALL {NODE} chat: 0 results for ")
            assert "test requests unanswered: " in card.text.splitlines()[0]
            assert "process ok · API ok in " in card.text
            await bot.kill()
            await agent.kill()
            await bot.start()
            await agent.start()
            asked_before = len(await chat.generations())
            async with asyncio.timeout(60):
                while len(await chat.generations()) == asked_before:
                    await asyncio.sleep(0.25)
            assert card.text.startswith("STALL"), "clocks that begin anew are no recovery"
            await chat.put(State.WORKING)
            await line.until(lambda: card.text.startswith(f"RECOVERED {NODE} chat"))
            await line.until(lambda: [one.text for one in line.channel.replies(card)] == ["Recovered"])
            assert '"actions"' not in json.dumps(card.blocks)
            recorded = len(line.stored(NODE))  # the looks that saw the recovery come with a window that still closes
            await line.until(lambda: len(line.stored(NODE)) >= recorded + 2)
    assert stall_cards(line) == [card]
    assert_only_tiny_canaries(spare, queued)
    began, ended, *compared = replayed(line)
    assert f"STALL {NODE} chat: 0 results for " in began
    assert f"RECOVERED {NODE} chat" in ended
    assert compared == ["Against what was said: 1 the same, 0 different"]
    incidents = rows(line.machine.data_dir, "SELECT subject, closed_at FROM incident WHERE kind = 'runner'")
    assert [(row["subject"], row["closed_at"] is not None) for row in incidents] == [(f"{NODE}/chat", True)]


def assert_only_tiny_canaries(spare: Runner, queued: Runner) -> None:
    """A healthy runner is asked for one token now and then; one whose queue is empty by another's word never."""
    assert spare.generations
    assert {one.body["max_tokens"] for one in spare.generations} == {1}
    assert queued.generations == []


def replayed(line: Line) -> list[str]:
    """What gpu-oncall replay prints of the bot's record."""
    command = [sys.executable, "-m", "bot", "replay", "--config", str(line.folder / "bot.yaml"), "--since", "1h"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()
