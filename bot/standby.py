"""The bot that waits while another one works: it is ready, and does nothing."""

import asyncio
import contextlib
import logging
import os
import socket
from contextlib import AbstractAsyncContextManager

from bot import clock
from bot.config import BotConfig
from bot.database import database_url
from bot.lease import LASTS_SECONDS, Leases
from bot.lock import bot_runs
from bot.store import leases
from bot.store.engine import make_engine
from bot.store.leases import Lease
from bot.store.tenure import Tenure
from bot.terminal.server import terminal
from bot.terminal.wire import Reply, Request, socket_path
from wire.configfile import ConfigError

log = logging.getLogger(__name__)

# A bot that was killed leaves its lease behind, which is over by then: only who holds it for longer is really there.
REALLY_THERE_SECONDS = 2 * LASTS_SECONDS


def this_bot() -> str:
    """Its name for people: where it runs."""
    return f"{socket.gethostname()}, PID {os.getpid()}"


def who_works(config: BotConfig) -> tuple[str, bool]:
    """The bot that works on the database ("": none), and whether it is this host's. Raises SQLAlchemyError."""
    engine = make_engine(database_url(config))
    try:
        with engine.connect() as connection:
            present = leases.read(connection)
    finally:
        engine.dispose()
    holder = present.holder if present.is_kept else ""
    try:
        pid = (config.data_dir / "bot.lock").read_text().strip()
    except OSError:
        return holder, False
    return holder, bot_runs(config.data_dir) and holder == f"{socket.gethostname()}, PID {pid}"


class Standby:
    """Waits for the lease, and says once who has it."""

    def __init__(self, config: BotConfig, leases: Leases, really_there_seconds: float = REALLY_THERE_SECONDS) -> None:
        self._config = config
        self._really_there_seconds = really_there_seconds
        self._leases = leases
        self._other = ""
        self._since = 0.0

    async def begun(self, stop: asyncio.Event) -> Tenure | None:
        """This bot's time at work; None: told to stop. Raises ConfigError where there cannot be two."""
        self._other = ""
        async with self._terminal():
            taking = asyncio.create_task(self._leases.taken(self._look), name="lease")
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if taking.done():
                return taking.result()
            taking.cancel()
            return None

    def _terminal(self) -> AbstractAsyncContextManager[None]:
        """Where nobody else can work, nobody has to be told who does."""
        if not self._leases.is_shared:
            return contextlib.nullcontext()
        return terminal(socket_path(self._config.data_dir), self._answer)

    def _look(self, lease: Lease) -> None:
        now = clock.monotonic_seconds()
        if lease.holder != self._other:
            self._other, self._since = lease.holder, now
            if lease.holder:
                log.info("This bot waits, another one works; it is on %s", lease.holder)
        is_really_there = lease.holder and now - self._since > self._really_there_seconds
        if is_really_there and self._config.bus.embedded_server() is not None:
            raise ConfigError(
                f"another gpu-oncall works on this database ({lease.holder}), and this one has a bus of its own: "
                "stop one of them; or, for one that works and one that waits, name the same bot.bus.servers in both"
            )

    async def _answer(self, _request: Request, _user: str) -> Reply:
        works = f"the one on {self._other} works: ask there" if self._other else "it is about to begin: ask again"
        return Reply(f"this bot waits; {works}", False)
