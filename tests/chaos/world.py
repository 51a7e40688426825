"""What chaos acts on: 50 light nodes and three real agents, a bus, PostgreSQL, two bots, and Slack on loopback."""

import contextlib
import random
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from demo.gpus import gpu, play, training
from demo.machine import Program
from demo.workspace import Workspace
from tests import postgres
from tests.agent.order_node import order_node
from tests.chaos import orders
from tests.chaos.nodes import LightFleet
from tests.chaos.proxy import Proxy
from tests.chaos.small_disk import small_disk
from tests.flow.pair import STORE_BYTES, Pair
from tests.nats_server import NatsServer, until

LIGHT_NODES = 50
AGENTS = ("agent-1", "agent-2")
ORDERED = "agent-3"
START_SECONDS = 90.0
_SPOOL_MIB, _STREAM_MIB, _DATABASE_MIB = 8, 128, 320
# Its log of changes must fit on the small disk beside the tables.
_SMALL_DATABASE = ("max_wal_size=64MB", "min_wal_size=32MB")


@dataclass(frozen=True)
class Disks:
    """The small disks by what lies on them; None where this machine lets nobody mount one."""

    spool: Path | None
    stream: Path | None
    database: Path | None


class SlowerPair(Pair):
    """Cards are drawn again so seldom that Slack's 50 edits a minute are enough for all of them."""

    edit_every = "5s"


class World:
    """`async with` starts it; whoever is in it may kill and cut what it likes."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        enter = self._stack.enter_async_context
        self.workspace = await enter(Workspace())
        names = [f"sim-{number:02d}" for number in range(1, LIGHT_NODES + 1)]
        self.server = NatsServer(self.folder / "nats", [*names, *AGENTS, ORDERED], STORE_BYTES)
        self.disks = self._mount()
        await self.server.start()
        self._stack.push_async_callback(self.server.stop)
        self.network = await enter(Proxy(self.server.port))
        self.pair = SlowerPair(self.folder, self.workspace, self.server, self.database.url("bot"))
        self.pair.node_url = f"nats://127.0.0.1:{self.network.port}"
        await self._start_bots()
        self.fleet = LightFleet({name: self.server.seeds[name] for name in names}, self.network.port, self.chance)
        self.fleet.begin()
        self._stack.push_async_callback(self.fleet.end)
        await self._start_agents()

    def _mount(self) -> Disks:
        """Before anything is written to them; also makes PostgreSQL."""
        enter = self._stack.enter_context
        folder = postgres.new_folder()
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        spool, stream = self.folder / AGENTS[0], self.folder / "nats" / "store"
        small = [enter(small_disk(spool, _SPOOL_MIB)), enter(small_disk(stream, _STREAM_MIB))]
        small.append(enter(small_disk(folder, _DATABASE_MIB)))
        self.database = postgres.PostgresServer(folder, settings=_SMALL_DATABASE)
        self.database.make()
        self.database.start()
        self._stack.callback(self.database.stop)
        self.database.execute("CREATE DATABASE bot")
        return Disks(*(path if ok else None for path, ok in zip((spool, stream, folder), small, strict=True)))

    async def _start_bots(self) -> None:
        for bot in (self.pair.first, self.pair.second):
            self._stack.push_async_callback(bot.kill)
        await self.pair.first.start()
        await until(lambda: "bot runs" in self.pair.first.log.read_text(), "the first bot", START_SECONDS)
        await self.pair.second.start()

    async def _start_agents(self) -> None:
        self.readings = self.folder / "readings.jsonl"
        self.play(is_idle=True)
        self.agents: dict[str, Program] = {name: self.pair.node(name, self.readings) for name in AGENTS}
        for agent in self.agents.values():
            self._stack.push_async_callback(agent.kill)
            await agent.start()
        link = await self._stack.enter_async_context(self.server.bot(STORE_BYTES // 2))
        on_the_network = _Through(self.server, self.pair.node_url)
        settings = orders.settings(self.folder)
        ordered = order_node(on_the_network, link, self.folder / ORDERED, ORDERED, **settings)  # type: ignore[arg-type]
        self.ordered = await self._stack.enter_async_context(ordered)
        await self.ordered.start()
        self.orders = orders.Orders(self.ordered, self.folder)
        nodes = "SELECT DISTINCT node FROM node_window"
        await until(
            lambda: {row.node for row in self.pair.rows(nodes)} >= {*AGENTS, ORDERED}, "their windows", START_SECONDS
        )

    def play(self, *, is_idle: bool) -> None:
        """What the GPUs of the real agents read from now on."""
        play(self.readings, gpu(0, 1) if is_idle else training(0, 1))

    def change(self) -> None:
        """Some nodes become idle and some busy: cards are posted and drawn again."""
        self.fleet.change()
        self.play(is_idle=self.chance.random() < 0.5)

    def spools(self) -> dict[str, int]:
        """The number of the newest window that each node has on its disk."""
        given = {node.name: node.last_seq for node in self.fleet.nodes}
        for name in AGENTS:
            given[name] = _last_seq(self.folder / name / "spool.db")
        given[ORDERED] = _last_seq(self.folder / ORDERED / "state" / "spool.db")
        return given

    def logs(self) -> str:
        """The ends of all logs, for a person."""
        programs = [self.pair.first, self.pair.second, *self.agents.values()]
        ends = [f"--- {one.name}\n{one.log.read_text(errors='replace')[-6000:]}" for one in programs]
        return "\n".join([*ends, f"--- {ORDERED}\n{self.ordered.log[-3000:]}"])


@dataclass(frozen=True)
class _Through:
    """The bus as a node sees it that reaches it over a network which can be cut."""

    server: NatsServer
    url: str

    def key_file(self, node: str) -> Path:
        return self.server.key_file(node)


def _last_seq(spool: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{spool}?mode=ro", uri=True, timeout=10)) as database:
        return int(database.execute("SELECT value FROM facts WHERE name = 'last_seq'").fetchone()[0])
