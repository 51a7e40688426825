"""The real nats-server on loopback, with the config that the bot writes, in a process that a test may kill."""

import asyncio
import os
import signal
import sysconfig
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from nats.js import JetStreamContext

from bot.broker.serverconf import ServerSettings, render
from bot.broker.stream import ensure_stream
from demo.machine import ends_with_us, free_ports
from wire import nkey, subjects
from wire.link import Link

PROGRAM = Path(sysconfig.get_path("scripts")) / "nats-server"
STREAM_BYTES = 16 * 1024 * 1024


async def until(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """The condition's first true value; it may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.01)


def free_port() -> int:
    return free_ports(1)[0]


@asynccontextmanager
async def connected(link: Link, seconds: float = 30.0) -> AsyncIterator[Link]:
    """Once it is connected; closed at the end."""
    await link.start()
    try:
        await asyncio.wait_for(link.wait_connected(), seconds)
        yield link
    finally:
        await link.close()


class NatsServer:
    """`seeds` holds every node's secret, and `bot_seed` the bot's."""

    def __init__(self, folder: Path, nodes: Sequence[str], max_store_bytes: int = STREAM_BYTES) -> None:
        self.folder = folder
        self.seeds = {node: nkey.generate_seed() for node in nodes}
        self.bot_seed = nkey.generate_seed()
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None
        settings = ServerSettings(
            listen=f"127.0.0.1:{self.port}",
            monitor=f"127.0.0.1:{free_port()}",
            store=folder / "store",
            pid_file=folder / "pid",
            max_store_bytes=max_store_bytes,
            bot_key=nkey.public_key(self.bot_seed),
            nodes={node: nkey.public_key(seed) for node, seed in self.seeds.items()},
        )
        folder.mkdir(exist_ok=True)
        self._conf = folder / "server.conf"
        self._conf.write_text(render(settings))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    def key_file(self, node: str) -> Path:
        path = self.folder / f"{node}.nkey"
        path.touch(mode=0o600)
        path.write_text(self.seeds[node])
        return path

    async def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *ends_with_us([str(PROGRAM), "-c", str(self._conf)]), stdout=log, stderr=log, start_new_session=True
            )
        await until(self._answers, f"a server on {self.url}: {(self.folder / 'log').read_text()[-500:]}")

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            await self._process.wait()
        self._process = None

    async def kill(self) -> None:
        await self.stop(signal.SIGKILL)

    def freeze(self) -> None:
        """The connection stays, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self._process.pid}/task")
        while any(" T " not in stat.read_text() for stat in tasks.glob("*/stat")):  # each thread stops in its own time
            os.sched_yield()

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def node_link(self, node: str, **changes: Any) -> Link:
        return fast_link([self.url], self.seeds[node], subjects.inbox(node), node, **changes)

    @asynccontextmanager
    async def bot(self, stream_bytes: int = STREAM_BYTES, per_node: int = 4000):
        """JetStream with the bot's rights, and its stream made."""
        link = fast_link([self.url], self.bot_seed, subjects.inbox("bot"), "bot")
        async with connected(link):
            await ensure_stream(link.jetstream(), stream_bytes, per_node)
            yield link

    async def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, (self.folder / "log").read_text()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            return (await reader.readline()).startswith(b"INFO")
        finally:
            writer.close()
            await writer.wait_closed()


def fast_link(servers: list[str], seed: str, inbox: str, name: str, **changes: Any) -> Link:
    return Link(servers, seed, inbox, name, insecure=True, **{"first_pause": timedelta(seconds=0.05), **changes})


async def stream_bodies(js: JetStreamContext) -> list[bytes]:
    """Every message of the stream, in its order."""
    last = (await js.stream_info(subjects.STREAM)).state.last_seq
    return [(await js.get_msg(subjects.STREAM, seq)).data or b"" for seq in range(1, last + 1)]
