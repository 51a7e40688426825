"""One of two bots works. When it dies, stops or is stopped, the other goes on: nothing lost, nothing said twice."""

import contextlib

import pytest

from demo.gpus import gpu, play
from tests.flow.pair import STORE_BYTES, Pair
from tests.flow.record import recorded_windows
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
