"""People and the bot as a real process: killed between post and record, asked at the terminal, checked."""

import asyncio
import getpass
import json
import re
import sys

from demo.gpus import gpu, play
from tests.flow.record import rows

ME = f"host:{getpass.getuser()}"


async def command(line, *arguments):
    """The command `gpu-oncall` with the bot's own config: status and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bot",
        *arguments,
        "--config",
        str(line.folder / "bot.yaml"),
        env=line.machine.bot()._environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def states(line):
    return [row["state"] for row in rows(line.machine.data_dir, "SELECT state FROM outbox WHERE kind = 'card'")]


async def test_a_bot_killed_between_the_post_and_its_record_posts_no_second_card(line, tmp_path, workspace):
    play(tmp_path / "idle.jsonl", gpu(0, 1))
    bot = line.machine.bot()
    agent = line.machine.node("gpu-01", collector="replay", replay_file=str(tmp_path / "idle.jsonl"))
    workspace.faults.slow("chat.postMessage", 60)
    async with line.running(bot, agent):
        await line.until(lambda: line.cards)
        assert states(line) == ["sending"]
        await bot.kill()
        await bot.start()
        await line.until(lambda: states(line) == ["sent"])
        assert len(line.cards) == 1
        posts = workspace.calls_of("chat.postMessage")
        assert len([one for one in posts if not one.arguments.get("thread_ts")]) == 1
        await asked_at_the_terminal(line, bot)


async def free_again(line):
    """A bot that just started waits for a heartbeat before it calls anything free."""
    async with asyncio.timeout(150):
        while True:
            status, out, _ = await command(line, "why", "gpu-01", "0")
            assert status == 0
            if "Free now" in out:
                return


async def asked_at_the_terminal(line, bot):
    """While the bot runs, and without it; the same records and the same rules."""
    (card,) = line.cards
    listed, _, unknown, _ = await asyncio.gather(
        command(line, "incidents"),
        free_again(line),
        command(line, "snooze", "99", "2h"),
        is_checked(line),
    )
    assert (listed[0], listed[1].splitlines()[0]) == (0, "1 open incident")
    assert (unknown[0], unknown[2].splitlines()[0]) == (1, "There is no incident 99")
    status, out, _ = await command(line, "ack", "1")
    assert (status, out) == (0, "Acknowledged. The card shows it to everybody\n")
    await line.until(lambda: f"Acknowledged by `{ME}`" in card.text)
    await bot.stop()
    status, out, err = await command(line, "snooze", "1", "2h", "new fans", "--json")
    assert (status, json.loads(out)["understood"], err) == (0, True, "")
    await bot.start()
    await line.until(lambda: f"Snoozed by `{ME}` until" in card.text and "new fans" in card.text)
    clicks = rows(line.machine.data_dir, "SELECT user, action, outcome FROM click ORDER BY id")
    assert [tuple(row) for row in clicks] == [
        (ME, "snooze", "unknown_button"),
        (ME, "acknowledge", "done"),
        (ME, "snooze", "done"),
    ]
    claimed, released, report = [
        await command(line, *words)
        for words in (("claim", "gpu-01", "0", "2h", "tuning"), ("release", "gpu-01", "0"), ("report",))
    ]
    assert (claimed[0], claimed[1].split(" until")[0]) == (0, "Claimed: gpu-01 GPU 0")
    assert (released[0], released[1]) == (0, "Released: gpu-01 GPU 0. May be called free from now on\n")
    assert (report[0], report[1].splitlines()[0]) == (0, "GPU report")


async def is_checked(line):
    status, out, err = await command(line, "check", "--json")
    found = {one["topic"]: one for one in json.loads(out)}
    assert (status, err) == (0, "")
    assert [found[topic]["level"] for topic in ("bot token", "app token", "channel default", "bus", "database")] == (
        ["ok"] * 5
    )
    assert re.fullmatch(r"runs; \d+ messages wait for Slack", found["bot"]["text"])
    assert all(message.metadata for message in line.channel.shown), "only the bot's outbox posts"
