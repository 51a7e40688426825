"""The field report's long hang with shortened clocks: the driver is fine, the API answers, and no work gets done."""

import json
import subprocess
import sys

from demo.gpus import parked, play
from demo.hanging import Doing, Runner
from tests.flow.conftest import Line
from tests.flow.record import rows

NODE = "gpu-07"
# A tick of 0.5 s instead of 30 s makes the node's own pauses between canaries as much shorter.
AGENT = {"collector": "replay", "runners_every": "500ms"}
STALL = {"stalled_fast": "6s", "stalled_slow_a": "20s", "idle_settles": "10s"}


def watched(name: str, runner: Runner, **more: object) -> dict[str, object]:
    return {"name": name, "preset": "vllm", "url": runner.url, "canary": {"first_token_timeout": "5s"}, **more}


def stall_cards(line: Line):
    return [card for card in line.cards if "FREE" not in card.text]


async def test_a_runner_that_hangs_behind_a_good_api_is_found_told_once_and_told_to_be_over(workspace, tmp_path):
    line = Line(tmp_path / "machine", workspace, stall=STALL)
    play(tmp_path / "gpus.jsonl", parked(0, 7))
    (tmp_path / "queue").write_text("0\n")
    async with Runner(Doing.WORKING) as chat, Runner() as spare, Runner(Doing.HANGING) as queued:
        runners = [
            watched("chat", chat),
            watched("spare", spare),
            watched("queued", queued, demand={"file": str(tmp_path / "queue")}),
        ]
        agent = line.machine.node(NODE, replay_file=str(tmp_path / "gpus.jsonl"), runners=runners, **AGENT)
        bot = line.machine.bot()
        async with line.running(bot), line.node_running(agent):
            await line.until(lambda: line.stored(NODE) and line.stored(NODE)[-1].ticks)
            assert chat.asked == []  # nobody asks a runner that works
            chat.doing = Doing.HANGING
            (card,) = await line.until(lambda: stall_cards(line))
            assert card.text.startswith(f"STALL {NODE} chat: 0 results for ")
            assert "test requests unanswered: " in card.text.splitlines()[0]
            assert "process not known · API ok in " in card.text
            assert "GPUs were at 0 % or less" in card.text
            await bot.kill()
            await bot.start()
            asked_before = len(chat.asked)
            await line.until(lambda: len(chat.asked) > asked_before)
            chat.recover()
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
    assert spare.asked
    assert {one["max_tokens"] for one in spare.asked} == {1}
    assert queued.asked == []


def replayed(line: Line) -> list[str]:
    """What gpu-oncall replay prints of the bot's record."""
    command = [sys.executable, "-m", "bot", "replay", "--config", str(line.folder / "bot.yaml"), "--since", "1h"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()
