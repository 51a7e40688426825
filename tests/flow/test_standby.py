"""One of two bots works. When it dies, stops or is stopped, the other goes on: nothing lost, nothing said twice."""

import asyncio
import contextlib
import os
import random
import shutil
import sys
from functools import partial

import pytest

from demo.gpus import gpu, play, training
from tests import postgres
from tests.flow.pair import STORE_BYTES, Pair
from tests.flow.record import recorded_windows, stored_windows
from tests.nats_server import NatsServer, until


@pytest.fixture
async def pair(tmp_path, workspace, postgres_url):
    server = NatsServer(tmp_path / "nats", ["gpu-01", "gpu-02"], STORE_BYTES)
    await server.start()
    pair = Pair(tmp_path, workspace, server, postgres_url)
    play(tmp_path / "idle.jsonl", gpu(0, 1))
    programs = [pair.first, pair.second]
    try:
        await pair.first.start()
        await until(lambda: pair.fence() == 1, "the first bot begins", 60)
        await pair.second.start()
        yield pair
    finally:
        for program in programs:
            with contextlib.suppress(ProcessLookupError):
                await program.kill()
            print(f"--- {program.name}\n{program.log.read_text(errors='replace')[-4000:]}")
        await server.stop()


async def test_the_second_bot_goes_on_when_the_first_is_killed_is_ended_or_wakes_too_late(pair, tmp_path):
    first, second = pair.first, pair.second
    node, other = pair.node("gpu-01", tmp_path / "idle.jsonl"), pair.node("gpu-02", tmp_path / "idle.jsonl")
    try:
        await node.start()
        await until(lambda: pair.channel.cards, "the first card", 60)
        assert pair.at_work() is first

        await first.kill()
        print(f"after kill -9: {await pair.taken_over(1):.1f} s")
        assert pair.at_work() is second

        await first.start()
        await until(lambda: "This bot waits" in first.log.read_text(), "it waits", 60)
        await second.stop()
        print(f"after a clean end: {await pair.taken_over(2):.1f} s")
        assert pair.at_work() is first

        await second.start()
        await until(lambda: second.log.read_text().count("This bot waits") == 2, "it waits", 60)
        await other.start()
        await until(lambda: is_found(pair, "gpu-02"), "an incident that nobody has heard of", 60)
        with pair.stopped(first):
            print(f"after SIGSTOP: {await pair.taken_over(3):.1f} s")
            await until(lambda: len(pair.channel.cards) == 2, "its card", 60)
        await until(lambda: "it waits again" in first.log.read_text(), "it notices", 60)
        assert pair.at_work() is second
        newest = len(pair.stored("gpu-02"))
        await until(lambda: len(pair.stored("gpu-02")) > newest + 1, "work goes on", 60)
        await node.stop()
        await other.stop()
        for name in ("gpu-01", "gpu-02"):
            seen = {number for number, _ in recorded_windows(tmp_path / name)}
            await until(lambda name=name, seen=seen: {one.window_number for one in pair.stored(name)} == seen, name, 60)
    finally:
        await node.stop()
        await other.stop()
    assert len(pair.channel.cards) == 2
    assert len(pair.keys()) == len(set(pair.keys())), "a message was posted twice"
    assert pair.rows("SELECT * FROM missing") == []
    assert pair.rows("SELECT * FROM rejected") == []
    assert len(pair.rows("SELECT * FROM incident")) == 2


def is_found(pair, node):
    return pair.rows("SELECT 1 FROM incident WHERE subject = %s", node)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_at_random_moments_either_bot_may_die_end_or_sleep_and_nothing_is_lost_or_doubled(pair, tmp_path, seed):
    chance, seconds = random.Random(seed), {}
    node = pair.node("gpu-01", tmp_path / "idle.jsonl")
    await node.start()
    try:
        for moment in range(10):
            play(tmp_path / "idle.jsonl", training(0, 1) if moment % 2 else gpu(0, 1))
            await asyncio.sleep(chance.uniform(0, 9))
            fault = chance.choice((killed, ended, slept, other_killed))
            seconds.setdefault(fault.__name__, []).append(round(await fault(pair), 1))
        play(tmp_path / "idle.jsonl", gpu(0, 1))
        await until(lambda: pair.rows("SELECT 1 FROM incident WHERE closed_at IS NULL"), "free at the end", 60)
        await until(lambda: not pair.rows("SELECT 1 FROM outbox WHERE state IN ('waiting', 'sending')"), "all said", 90)
        await node.stop()
        seen = {number for number, _ in recorded_windows(tmp_path / "gpu-01")}
        await until(lambda: {one.window_number for one in pair.stored("gpu-01")} == seen, "all windows", 60)
    finally:
        await node.stop()
    print(f"seconds until another bot worked: {seconds}")
    assert pair.rows("SELECT * FROM missing") == pair.rows("SELECT * FROM rejected") == []
    assert len(pair.keys()) == len(set(pair.keys())), "a message was posted twice"
    posted = [row.ts for row in pair.rows("SELECT ts FROM outbox WHERE kind = 'card' AND ts IS NOT NULL")]
    assert sorted(card.ts for card in pair.channel.cards) == sorted(posted)


async def killed(pair):
    fence, bot = pair.fence(), pair.at_work()
    await bot.kill()
    taken = await pair.taken_over(fence)
    await started_again(pair, bot)
    return taken


async def ended(pair):
    fence, bot = pair.fence(), pair.at_work()
    await bot.stop()
    taken = await pair.taken_over(fence)
    await started_again(pair, bot)
    return taken


async def slept(pair):
    fence, bot = pair.fence(), pair.at_work()
    with pair.stopped(bot):
        taken = await pair.taken_over(fence)
    await until(lambda: bot.log.read_text().rstrip().endswith(f"server={pair.server.url[7:]}"), "it waits", 60)
    return taken


async def other_killed(pair):
    """Nobody notices."""
    bot = pair.waiting()
    await bot.kill()
    await started_again(pair, bot)
    return 0.0


async def started_again(pair, bot):
    waits = bot.log.read_text().count("This bot waits")
    await bot.start()
    await until(lambda: bot.log.read_text().count("This bot waits") > waits, "it waits", 60)


@pytest.mark.slow
async def test_a_backup_taken_under_load_goes_on_elsewhere_without_a_second_card(pair, tmp_path):
    """From PostgreSQL into SQLite on another machine; the bot of before is killed while it posts."""
    names = ["gpu-01", "gpu-02"]
    programs = [pair.node(name, tmp_path / "idle.jsonl") for name in names]
    elsewhere, backup = pair.bot("bot-c", database=None), tmp_path / "backup"
    try:
        for node in programs:
            await node.start()
        await until(lambda: is_found(pair, "gpu-01"), "something to say", 60)
        await run(pair, "backup", backup, "bot-a")
        await pair.second.kill()
        await pair.first.kill()
        await run(pair, "restore", backup, "bot-c")
        await elsewhere.start()
        await until(lambda: len(notices(pair)) == 1, "the notice", 60)
        await until(lambda: len(pair.channel.cards) == 3, "both cards", 60)
        await until(lambda: len(windows_of(tmp_path, "gpu-02")) > 5, "windows", 60)
        for node in programs:
            await node.stop()
        for name in names:
            seen = {number for number, _ in recorded_windows(tmp_path / name)}
            stored = partial(windows_of, tmp_path, name)
            await until(lambda stored=stored, seen=seen: {one.window_number for one in stored()} == seen, name, 60)
    finally:
        for program in (*programs, elsewhere):
            await program.stop()
        print(elsewhere.log.read_text(errors="replace")[-4000:])
    assert len(pair.channel.cards) == 3
    assert len(pair.keys()) == len(set(pair.keys()))


async def run(pair, command, file, bot):
    command = ["-m", "bot", "db", command, str(file), "--config", str(pair.folder / f"{bot}.yaml")]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, env={**os.environ, **pair.commands})
    assert await process.wait() == 0


def notices(pair):
    return [card for card in pair.channel.cards if "was brought back" in card.text]


def windows_of(folder, name):
    return stored_windows(folder / "bot-c", name)


@pytest.fixture
def own_server():
    """A PostgreSQL that this test may kill."""
    folder = postgres.new_folder()
    server = postgres.PostgresServer(folder)
    server.make()
    server.start()
    server.execute("CREATE DATABASE bot")
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "seconds", [0.0, pytest.param(14.0, marks=pytest.mark.slow, id="for longer than the lease lasts")]
)
async def test_when_the_database_dies_the_bot_goes_on_as_soon_as_it_is_back(tmp_path, workspace, own_server, seconds):
    server = NatsServer(tmp_path / "nats", ["gpu-01"], STORE_BYTES)
    await server.start()
    pair = Pair(tmp_path, workspace, server, own_server.url("bot"))
    play(tmp_path / "idle.jsonl", gpu(0, 1))
    node = pair.node("gpu-01", tmp_path / "idle.jsonl")
    try:
        await pair.first.start()
        await until(lambda: has_begun(pair), "it begins", 60)
        await node.start()
        await until(lambda: pair.stored("gpu-01"), "a window", 60)
        own_server.stop()
        await asyncio.sleep(seconds)
        own_server.start()
        stored = len(pair.stored("gpu-01"))
        await until(lambda: len(pair.stored("gpu-01")) > stored + 2, "it goes on", 60)
        await until(lambda: pair.channel.cards, "a card", 60)
        await node.stop()
        seen = {number for number, _ in recorded_windows(tmp_path / "gpu-01")}
        await until(lambda: {one.window_number for one in pair.stored("gpu-01")} == seen, "all of them", 60)
        assert len(pair.channel.cards) == 1
        assert pair.rows("SELECT * FROM missing") == pair.rows("SELECT * FROM rejected") == []
        assert pair.first.returncode is None
    finally:
        await node.stop()
        await pair.first.kill()
        print(pair.first.log.read_text(errors="replace")[-4000:])
        await server.stop()


def has_begun(pair):
    return "bot runs" in pair.first.log.read_text()
