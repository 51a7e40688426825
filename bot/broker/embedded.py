"""The embedded nats-server: made ready, started, watched, started again, stopped."""

import asyncio
import logging
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot import clock
from bot.broker.authority import renew_certificate, tls_files
from bot.broker.binary import find_server
from bot.broker.child import Child, check_conf
from bot.broker.errors import BrokerError
from bot.broker.folder import Folder
from bot.broker.health import read_health
from bot.broker.nodes import NodeFiles
from bot.broker.ports import require_free
from bot.broker.probe_key import probe_key, stranger_seed
from bot.broker.serverconf import ServerSettings, ServerTls, render
from bot.config import BotConfig, EmbeddedBus
from wire import addresses, nkey, subjects
from wire.credentials import read_seed
from wire.files import write_private

log = logging.getLogger(__name__)

# Reading a large store back takes a while: 2 s for 640 MB on a fast disk.
START_DEADLINE_SECONDS = 300.0
LOOK_EVERY_SECONDS = 0.05
ORPHAN_LOOKS = 200  # 10 s between SIGTERM and SIGKILL
LONGEST_PAUSE_SECONDS = 30.0
# A server that lived this long was all right: the next pause is the shortest again.
LONG_LIFE_SECONDS = 60.0
MOST_PUT_ASIDE = 8


@dataclass(frozen=True)
class Patience:
    """How soon a server counts as hung, and how long it may take to end."""

    check_every_seconds: float = 2.0
    answer_seconds: float = 2.0
    failed_checks: int = 5
    stop_seconds: float = 10.0


def own_url(config: BotConfig, bus: EmbeddedBus) -> str:
    """How this machine reaches the server, which may listen on every address."""
    host, port = addresses.host_and_port(bus.listen)
    if addresses.is_every_address(host):
        host = "::1" if ":" in host else "127.0.0.1"
    scheme = addresses.CLEAR if config.bus.insecure else addresses.ENCRYPTED
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class EmbeddedServer:
    """A nats-server of our own, for as long as the bot lives. `start` and `stop` once each, from the main thread.

    `on_refused` may be set to what is told of every key that the server does not know, and where it came from;
    `on_violation` of every key that was let in and said something on a subject that it may not.
    """

    def __init__(self, config: BotConfig, bus: EmbeddedBus, patience: Patience = Patience()) -> None:
        self._config = config
        self._patience = patience
        self._bus = bus
        self._nodes = NodeFiles(config.data_dir)
        self._folder = Folder(config.data_dir)
        self._program = Path()
        self._child: Child | None = None
        self._watch: asyncio.Task[None] | None = None
        self._must_reload = False
        self._checkers: frozenset[str] = frozenset()
        self._stranger = ""
        self.on_refused: Callable[[str, str], None] = lambda key, address: None
        self.on_violation: Callable[[str, str, str], None] = lambda key, address, subject: None

    @property
    def url(self) -> str:
        """How the bot reaches it."""
        return own_url(self._config, self._bus)

    @property
    def pid(self) -> int | None:
        """The running server's process; None while there is none."""
        return self._child.pid if self._child and not self._child.ended.is_set() else None

    async def start(self) -> None:
        """Returns when the server is well. Raises BrokerError or ConfigError, with nothing left behind."""
        self._program = await find_server(self._config.bus.nats_server)
        self._folder.take()
        try:
            await self._end_orphan()
            require_free(self._bus.listen, "bus.embedded.listen")
            require_free(self._bus.monitor, "bus.embedded.monitor")
            self.renew_certificate()
            await self._write_conf()
            await self._start_child()
        except BaseException:
            await self._stop_child()
            self._folder.give_back()
            raise
        self._watch = asyncio.create_task(self._supervise(), name="nats-server watch")

    async def stop(self) -> None:
        """Returns when the server is gone."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._stop_child()
        self._folder.give_back()

    async def _end_orphan(self) -> None:
        """With the lock in our hands, a server that runs on our folder belongs to nobody."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            self._folder.end_orphan(how)
            for _ in range(ORPHAN_LOOKS):
                if self._folder.orphan() is None:
                    return
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    def renew_certificate(self) -> bool:
        """Whether there is a new one, which counts from `apply` on. Raises ConfigError."""
        if self._config.bus.insecure:
            return False
        return renew_certificate(self._config.data_dir, self._bus.hosts(), clock.now())

    async def apply(self, *, again: bool = False) -> None:
        """Lets the running server take what is on disk now: nodes, join keys, and with `again` the certificate.

        No connection ends but those of users that are gone. Raises BrokerError where the server refuses.
        """
        before = self._folder.conf.read_bytes()
        await self._write_conf()
        self._must_reload |= again or before != self._folder.conf.read_bytes()
        child = self._child
        if child is None or child.ended.is_set() or not self._must_reload:
            return  # a server that is being started reads the new file
        trouble = await child.reload()
        if trouble:
            raise BrokerError(f"nats-server did not take its new config: {trouble}")
        self._must_reload = False

    async def _settings(self) -> ServerSettings:
        """As the config, the keys and the nodes on disk want it; our own users are remembered."""
        data_dir = self._config.data_dir
        files = tls_files(data_dir)
        known = await asyncio.to_thread(self._nodes.nodes)
        bot_key, probe = nkey.public_key(read_seed(self._config.key_file())), probe_key(data_dir)
        self._checkers, self._stranger = frozenset({bot_key, probe}), nkey.public_key(stranger_seed(data_dir))
        return ServerSettings(
            listen=self._bus.listen,
            monitor=self._bus.monitor,
            store=self._folder.store,
            pid_file=self._folder.pid_file,
            max_store_bytes=self._bus.max_store,
            bot_key=bot_key,
            nodes={**known, subjects.PROBE: probe},
            joins={name: join.key for name, join in self._nodes.open_joins(clock.now()).items()},
            tls=None if self._config.bus.insecure else ServerTls(files.server, files.server),
        )

    async def _write_conf(self) -> None:
        settings, candidate = await self._settings(), self._folder.conf.with_suffix(".new")
        try:
            text = render(settings)
        except ValueError as error:
            raise BrokerError(str(error)) from error
        write_private(candidate, text)
        await check_conf(self._program, candidate, self._folder.path)
        candidate.replace(self._folder.conf)
        free = shutil.disk_usage(self._folder.path).free
        if free < self._bus.max_store:
            log.warning(
                "the disk may fill before the stream is full free_bytes=%d max_store=%d", free, self._bus.max_store
            )

    async def _start_child(self) -> None:
        """Returns when the server is well; what it cannot recover is put aside on the way. Raises BrokerError."""
        for _ in range(MOST_PUT_ASIDE):
            self._child = await Child.start(self._program, self._folder.conf, self._folder.path)
            self._child.checkers, self._child.stranger = self._checkers, self._stranger
            self._child.on_refused = lambda key, address: self.on_refused(key, address)
            self._child.on_violation = lambda key, address, subject: self.on_violation(key, address, subject)
            lost = await self._until_well(self._child)
            if not lost:
                log.info("nats-server is up pid=%d listen=%s", self._child.pid, self._bus.listen)
                return
            await self._stop_child()
            target = self._folder.put_aside(lost, clock.now())
            log.error(
                "nats-server could not recover %s, it starts empty; the old one lies in %s", " > ".join(lost), target
            )
        raise BrokerError(f"nats-server still cannot recover its store after {MOST_PUT_ASIDE} parts were put aside")

    async def _until_well(self, child: Child) -> tuple[str, ...]:
        """() when it is well, or what it cannot recover. Raises BrokerError when it ends or takes too long."""
        deadline = clock.monotonic_seconds() + START_DEADLINE_SECONDS
        trouble: str | None = "it is not ready"
        while clock.monotonic_seconds() < deadline:
            if child.ended.is_set():
                raise BrokerError(f"nats-server ended while starting: {child.last_words()}")
            # Before it is ready, a stream that is still being read counts as lost.
            if child.ready.is_set():
                health = await read_health(self._bus.monitor, self._patience.answer_seconds)
                lost = health.lost or child.lost
                if health.trouble is None or lost:
                    return lost
                trouble = health.trouble
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        raise BrokerError(f"nats-server is not well after {START_DEADLINE_SECONDS:g} s: {trouble}")

    async def _supervise(self) -> None:
        attempt = 0
        while True:
            if self._child is not None:
                born = clock.monotonic_seconds()
                log.error("nats-server %s, starting it again", await self._until_unwell(self._child))
                attempt = 0 if clock.monotonic_seconds() - born > LONG_LIFE_SECONDS else attempt
            await self._stop_child()
            await asyncio.sleep(min(LONGEST_PAUSE_SECONDS, 0.25 * 2**attempt))
            attempt = min(attempt + 1, 16)
            try:
                await self._start_child()
            except (BrokerError, OSError) as error:
                log.error("nats-server did not start, trying again error=%s", error)
                await self._stop_child()

    async def _until_unwell(self, child: Child) -> str:
        """Why the server must be started again."""
        failed = 0
        while failed < self._patience.failed_checks:
            try:
                await asyncio.wait_for(child.ended.wait(), self._patience.check_every_seconds)
            except TimeoutError:
                health = await read_health(self._bus.monitor, self._patience.answer_seconds)
                failed = failed + 1 if health.trouble else 0
            else:
                return f"ended: {child.last_words()}"
        return f"is not well: {health.trouble}"

    async def _stop_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop(self._patience.stop_seconds)
