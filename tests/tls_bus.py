"""The bot's side of the bus as it runs for real: TLS, the embedded server, enrolment; in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bot import clock
from bot.broker.authority import renew_certificate
from bot.broker.embedded import EmbeddedServer
from bot.broker.enrolment import Enrolment
from bot.broker.nodes import register_node
from bot.broker.stream import ensure_stream
from bot.config import BotConfig, Bus, EmbeddedBus
from bot.lock import only_bot
from bot.order_key import make_order_key
from tests.nats_server import free_port
from wire import nkey, subjects
from wire.addresses import server_address
from wire.credentials import read_seed
from wire.dial import Identity, visit
from wire.files import write_private
from wire.link import Link
from wire.tls import client_context

MAX_BYTES = 512 << 20


def bot_config(folder: Path, **bus) -> BotConfig:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    embedded = EmbeddedBus(listen=f"127.0.0.1:{free_port()}", monitor=f"127.0.0.1:{free_port()}")
    config = BotConfig(data_dir=folder, bus=Bus(embedded=embedded, **bus))
    write_private(config.key_file(), nkey.generate_seed())
    make_order_key(folder)
    renew_certificate(folder, embedded.hosts(), clock.now())
    return config


def new_node(config: BotConfig, name: str) -> str:
    """The seed of a node that is let in."""
    seed = nkey.generate_seed()
    register_node(config.data_dir, name, nkey.public_key(seed))
    return seed


@dataclass
class RunningBus:
    config: BotConfig
    server: EmbeddedServer
    link: Link
    enrolment: Enrolment

    @property
    def ca_file(self) -> Path:
        return self.config.ca_file()

    def visit(self, seed: str, owner: str):
        """A connection with somebody's key."""
        context = client_context(self.config.ca_file())
        identity = Identity(seed, subjects.inbox(owner), owner)
        return visit(server_address(self.server.url, insecure=False), identity, context)

    def visit_as_bot(self):
        return self.visit(read_seed(self.config.key_file()), subjects.BOT)

    def node_link(self, name: str, seed: str) -> Link:
        servers, inbox = [self.server.url], subjects.inbox(name)
        return Link(servers, seed, inbox, name, ca_file=self.config.ca_file(), first_pause=timedelta(seconds=0.05))


@asynccontextmanager
async def running_bus(config: BotConfig) -> AsyncIterator[RunningBus]:
    with only_bot(config.data_dir):
        server = EmbeddedServer(config, config.bus.embedded_server())
        await server.start()
        seed = read_seed(config.key_file())
        link = Link([server.url], seed, subjects.inbox(subjects.BOT), "bot", ca_file=config.ca_file())
        await link.start()
        enrolment = Enrolment(config.data_dir, link, server)
        enrolling = asyncio.create_task(enrolment.run())
        try:
            await asyncio.wait_for(link.wait_connected(), 30)
            await ensure_stream(link.jetstream(), MAX_BYTES)
            yield RunningBus(config, server, link, enrolment)
        finally:
            enrolling.cancel()
            await asyncio.gather(enrolling, return_exceptions=True)
            await link.close()
            await server.stop()
