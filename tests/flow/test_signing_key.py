"""A new key for orders reaches every node by itself: through a killed bot, one that was off; never from a stranger."""

import subprocess
import sys

from nacl.signing import SigningKey

from agent.clock import Clock
from agent.trusted_keys import TrustedKeys
from bot.order_key import make_order_key, public_order_key, read_order_keys
from demo.gpus import gpu, play
from tests.nats_server import connected
from wire import subjects
from wire.credentials import read_seed
from wire.files import write_private
from wire.keychange import key_change
from wire.link import Link
from wire.nodefiles import order_key_file, order_key_text


def rotate(line) -> str:
    """As a person does, at the terminal beside the bot or without it."""
    command = [sys.executable, "-m", "bot", "rotate-signing-key", "--config", str(line.folder / "bot.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def believes(line, node: str) -> None:
    """Until the node's newest key is the bot's."""
    keys = TrustedKeys(line.folder / node, Clock())
    await line.until(lambda: [*keys.valid()][:1] == [public_order_key(line.machine.data_dir)])


async def say_as_the_broker_could(line, body: bytes) -> None:
    """With the bot's own rights on the bus, as somebody who owns its host's broker has them."""
    seed = read_seed(line.machine.data_dir / "bot.nkey")
    server = f"nats://127.0.0.1:{line.machine._port}"
    async with connected(Link([server], seed, subjects.inbox(subjects.BOT), "stranger", insecure=True)) as link:
        assert await link.publish_core(subjects.key_change("gpu-01"), body)


async def test_nodes_follow_a_new_key_for_orders_through_a_killed_bot_and_after_being_off(line, tmp_path):
    play(tmp_path / "idle.jsonl", gpu(0, 1))
    data_dir = line.machine.data_dir
    make_order_key(data_dir)
    first = public_order_key(data_dir)
    bot = line.machine.bot()
    nodes = [
        line.machine.node(name, collector="replay", replay_file=str(tmp_path / "idle.jsonl"))
        for name in ("gpu-01", "gpu-02")
    ]
    for node in nodes:
        write_private(order_key_file(line.folder / node.name), order_key_text(first))
    async with line.running(bot, nodes[0]):
        await line.until(lambda: line.stored("gpu-01"))

        assert "Nodes hear of it within seconds" in rotate(line)
        await believes(line, "gpu-01")
        valid = TrustedKeys(line.folder / "gpu-01", Clock()).valid()
        assert [*valid] == [public_order_key(data_dir), first]  # what the old key signed before still counts

        await bot.kill()
        assert "The bot does not run" in rotate(line)
        await bot.start()
        await believes(line, "gpu-01")

        before = TrustedKeys(line.folder / "gpu-01", Clock()).valid()
        thief = SigningKey.generate()
        await say_as_the_broker_could(line, key_change(thief, bytes(SigningKey.generate().verify_key)))
        await line.until(lambda: "a new key for orders is not believed" in nodes[0].log.read_text())
        assert TrustedKeys(line.folder / "gpu-01", Clock()).valid() == before

        # gpu-02 was off for all of it, and knows the first key only.
        async with line.node_running(nodes[1]):
            await believes(line, "gpu-02")
    assert len(read_order_keys(data_dir).changes) == 2


async def test_a_node_of_another_bots_key_is_told_once_and_believes_what_it_did(line, tmp_path):
    play(tmp_path / "idle.jsonl", gpu(0, 1))
    make_order_key(line.machine.data_dir)
    bot = line.machine.bot()
    node = line.machine.node("gpu-01", collector="replay", replay_file=str(tmp_path / "idle.jsonl"))
    strange = bytes(SigningKey.generate().verify_key)
    write_private(order_key_file(line.folder / "gpu-01"), order_key_text(strange))
    async with line.running(bot, node):
        await line.until(lambda: "node believes another key for orders than ours" in bot.log.read_text())
        await line.until(lambda: len(line.stored("gpu-01")) > 1)
        assert bot.log.read_text().count("node believes another key") == 1
        assert [*TrustedKeys(line.folder / "gpu-01", Clock()).valid()] == [strange]
