"""Long: a thousand nodes join one after the other, and a cluster of three loses its leader. `make chaos` runs these."""

import asyncio
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent import join
from bot import clock
from bot.broker import nodes
from bot.broker.authority import authority_der, tls_files
from bot.broker.enrolment import applied_rights, wanted_rights
from bot.broker.serverconf import Cluster
from bot.broker.stream import ensure_stream
from bot.config import Bus
from bot.external import check_rights, server_config
from bot.order_key import public_order_key
from tests.nats_server import PROGRAM, connected, free_port, stream_bodies, until
from tests.tls_bus import bot_config, new_node, running_bus
from wire import nkey, subjects
from wire.acks import Ack
from wire.credentials import read_seed
from wire.enrolment import Token
from wire.link import Link

NODES, AT_ONCE, BYSTANDERS = 1000, 50, 10
MESSAGES = 300


@pytest.mark.slow
async def test_a_thousand_nodes_join_and_no_connection_ends(tmp_path):
    config = bot_config(tmp_path / "bot")
    seeds = {f"here-{number}": new_node(config, f"here-{number}") for number in range(BYSTANDERS)}
    async with running_bus(config) as bus, AsyncExitStack() as stack:
        connected: list[str] = []
        for name, seed in seeds.items():
            link = bus.node_link(name, seed)
            link.on_connected = lambda name=name: connected.append(name)
            stack.push_async_callback(link.close)
            await link.start()
        await until(lambda: len(connected) == BYSTANDERS, "all that are there already")
        began = time.monotonic()
        for first in range(0, NODES, AT_ONCE):
            await asyncio.gather(*[_enrol(bus, name) for name in await _expected(bus, first)])
        seconds = time.monotonic() - began
        assert len(nodes.read_nodes(config.data_dir)) == NODES + BYSTANDERS
        assert sorted(connected) == sorted(seeds)
    print(f"\n{NODES} nodes joined in {seconds:.1f} s, {seconds / NODES * 1000:.0f} ms each; no connection ended")


async def _expected(bus, first: int) -> list[tuple[str, str]]:
    """Join keys that the server has by now."""
    data_dir, names = bus.config.data_dir, [f"gpu-{number:04}" for number in range(first, first + AT_ONCE)]
    keys = [(name, nodes.open_join(data_dir, name, clock.now())) for name in names]
    await until(lambda: applied_rights(data_dir) == wanted_rights(data_dir, clock.now()), "join keys", 60)
    return keys


async def _enrol(bus, expected: tuple[str, str]) -> None:
    name, join_seed = expected
    key = public_order_key(bus.config.data_dir)
    await join._ask(Token(name, [bus.server.url], authority_der(bus.ca_file), key, join_seed), nkey.generate_seed())


@pytest.mark.slow
async def test_a_cluster_of_three_loses_its_leader_and_nothing_else(tmp_path):
    config = bot_config(tmp_path / "bot")
    seed = new_node(config, "gpu-01")
    async with cluster(config, tmp_path) as servers:
        urls = [f"tls://{server.listen}" for server in servers.values()]
        config = replace(config, bus=Bus(servers=urls, ca=config.ca_file(), replicas=3))
        bot = _link(urls, read_seed(config.key_file()), subjects.BOT, config)
        node = _link(urls, seed, "gpu-01", config)
        async with connected(bot), connected(node):
            await until(lambda: _stream(bot), "a stream of three copies", 60)
            assert [attempt for attempt in await check_rights(config) if not attempt.is_well] == []
            began = time.monotonic()
            for number in range(1, MESSAGES + 1):
                if number == MESSAGES // 2:
                    leader = (await bot.jetstream().stream_info("OBS")).cluster.leader
                    await servers[leader].kill()
                    killed = time.monotonic()
                await until(lambda number=number: _sent(node, number), f"message {number}", 60)
                if number == MESSAGES // 2:
                    gap_seconds = time.monotonic() - killed
            await asyncio.wait_for(bot.wait_connected(), 30)
            bodies = await until(lambda: _bodies(bot), "the stream again", 30)
    assert bodies == [b"%d" % number for number in range(1, MESSAGES + 1)]
    print(f"\nleader {leader} killed: {gap_seconds:.1f} s without an acknowledgement, {MESSAGES} of {MESSAGES} kept, "
          f"{time.monotonic() - began:.1f} s in all")  # fmt: skip


async def _stream(bot: Link) -> bool:
    try:
        await ensure_stream(bot.jetstream(), 512 << 20, replicas=3)
    except Exception:  # no quorum yet
        return False
    return (await bot.jetstream().stream_info("OBS")).config.num_replicas == 3


async def _sent(node: Link, number: int) -> bool:
    message_id = subjects.message_id("gpu-01", "epoch", number)
    body = b"%d" % number
    ack = await node.publish_acked(subjects.observations("gpu-01"), body, message_id, timedelta(seconds=2))
    return isinstance(ack, Ack)


async def _bodies(bot: Link) -> list[bytes] | None:
    try:
        return await stream_bodies(bot.jetstream())
    except Exception:  # an election
        return None


def _link(urls: list[str], seed: str, owner: str, config) -> Link:
    inbox, pause = subjects.inbox(owner), timedelta(seconds=0.2)
    return Link(urls, seed, inbox, owner, ca_file=config.ca_file(), first_pause=pause)


class Server:
    """One nats-server of the cluster."""

    def __init__(self, conf: Path, listen: str) -> None:
        self.conf, self.listen = conf, listen
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.conf.with_suffix(".log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(PROGRAM, "-c", self.conf, stdout=log, stderr=log)

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()


@asynccontextmanager
async def cluster(config, folder: Path):
    """What `gpu-oncall bus print-config` prints, three times."""
    files, servers = tls_files(config.data_dir), {}
    routes = tuple(f"127.0.0.1:{free_port()}" for _ in range(3))
    for number, route in enumerate(routes, 1):
        name, listen = f"nats-{number}", f"127.0.0.1:{free_port()}"
        text = server_config(
            config, name=name, listen=listen, monitor=f"127.0.0.1:{free_port()}", store=folder / name,
            max_store="512MiB", cert=files.server, key=files.server, cluster=Cluster(route, routes, files.ca),
        )  # fmt: skip
        (folder / f"{name}.conf").write_text(text)
        servers[name] = Server(folder / f"{name}.conf", listen)
    try:
        for server in servers.values():
            await server.start()
        yield servers
    finally:
        for server in servers.values():
            await server.kill()


@pytest.mark.slow
def test_more_nodes_than_one_bot_takes_are_refused(tmp_path):
    folder = nodes.folder(tmp_path)
    folder.mkdir()
    for number in range(nodes.MOST_NODES):
        (folder / f"n{number}.pub").write_text(nkey.public_key(nkey.generate_seed()))
    with pytest.raises(ValueError, match="there are 10000 nodes already, which is the most that one bot takes"):
        nodes.open_join(tmp_path, "one-more", clock.now())
