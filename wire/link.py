"""The connection to NATS that stays, for node and bot: one way in, one way back, nothing taken on trust."""

import asyncio
import contextlib
import itertools
import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from urllib.parse import SplitResult

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from wire import addresses, tls
from wire.acks import Ack, Failure, FailureKind, read_ack
from wire.configfile import ConfigError
from wire.dial import Identity, close, dial, within

log = logging.getLogger(__name__)

WRITE_DEADLINE = timedelta(seconds=2)
FLUSH_SECONDS = 60  # nats-py's own deadline: ours is the shorter one
LOOK_EVERY = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(seconds=30)
TIMEOUTS_THAT_END_A_CONNECTION = 3
HEADER_BYTES = 512  # the server counts headers too, and ends the connection over one byte too many

Handler = Callable[[Msg], Awaitable[None]]


class NotConnectedError(Exception):
    """There is no connection now; wait with `wait_connected`."""


def pause_seconds(attempt: int, first: timedelta, longest: timedelta = LONGEST_PAUSE) -> float:
    """A random pause before the next attempt (0 is the first), so that a fleet does not come back all at once."""
    return random.uniform(0, min(longest, first * 2 ** min(attempt, 16)).total_seconds())


class Link:
    """A connection that a task of its own makes, watches and makes anew, for ever; no caller waits for that.

    nats-py's own reconnecting is off: it adds no jitter, may pin a dead server, sends old buffered messages later and
    can end closed. Every loss ends in a new client instead. `first_pause` bounds the random wait after a loss.
    `seed` may be a function that is asked at each new connection, so that a new key on disk counts without a restart;
    `ca_file` is the authority for servers with tls://.
    `on_connected` may be set to what is to be called at each new connection.
    """

    def __init__(
        self,
        servers: Sequence[str],
        seed: str | Callable[[], str],
        inbox_prefix: str,
        name: str,
        *,
        ca_file: Path | None = None,
        insecure: bool = False,
        first_pause: timedelta = timedelta(seconds=5),
    ) -> None:
        """Raises ConfigError for an address or an authority that must not be used."""
        if not servers:
            raise ConfigError("the list of servers is empty: name at least one, for example tls://bot-host:4222")
        self._servers = [_checked_address(server, insecure) for server in servers]
        self._seed, self._inbox_prefix, self._name = seed, inbox_prefix, name
        self._ca_file = ca_file
        for server in self._servers:
            self._context(server)
        self._first_pause = first_pause
        self.on_connected: Callable[[], None] = lambda: None
        self._handlers: list[tuple[str, Handler]] = []
        self._client: Client | None = None
        self._jetstream: JetStreamContext | None = None
        self._up = asyncio.Event()
        self._give_up, self._look = asyncio.Event(), asyncio.Event()
        self._timeouts_in_a_row = 0
        self._last_error: Exception | None = None
        self._told: set[str] = set()
        self._supervisor: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to connect in the background and returns at once."""
        self._supervisor = asyncio.create_task(self._supervise(), name="bus link")

    async def close(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        while supervisor is not None and not supervisor.done():
            supervisor.cancel()  # again and again: nats-py swallows it in places
            await asyncio.wait({supervisor}, timeout=0.1)

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    async def wait_connected(self) -> None:
        """Returns as soon as there is a connection."""
        await self._up.wait()

    def reconnect(self) -> None:
        """Drops this connection for a new one: for callers that see time-outs while the client believes all is well."""
        self._give_up.set()
        self._look.set()

    def start_over(self) -> None:
        """A new connection, on which nothing is subscribed: for a bot that has to wait again."""
        self._handlers.clear()
        self.reconnect()

    def jetstream(self) -> JetStreamContext:
        """JetStream on this connection; raises NotConnectedError.

        The same object as long as the same connection lives: subscriptions made on it end with it.
        """
        if self._jetstream is None or not self.is_connected:
            raise NotConnectedError
        return self._jetstream

    async def subscribe(self, subject: str, handler: Handler) -> None:
        """Calls `handler` for every message, on this connection and all later ones; it must return in microseconds."""
        self._handlers.append((subject, handler))
        if self._client is not None and self._client.is_connected:
            await within(WRITE_DEADLINE, self._client.subscribe(subject, cb=handler))

    async def publish_core(self, subject: str, body: bytes) -> bool:
        """Sends a message of which a lost one does no harm; False when there was no connection to write it to."""
        client = self._client
        if client is None or not client.is_connected:
            return False
        try:
            await within(WRITE_DEADLINE, client.publish(subject, body))
        except Exception as error:  # whatever a dying client raises, its replacement is under way
            self._tell_once(f"bus did not take a message subject={subject} error={tls.words(error)}")
            return False
        return True

    async def publish_and_wait(self, subject: str, body: bytes) -> bool:
        """The same, and returns when the server has it: for what must be said before this machine may be gone."""
        client = self._client
        if client is None or not await self.publish_core(subject, body):
            return False
        try:
            for _ in range(2):  # the first flush of nats-py may overtake what it shall flush
                await within(WRITE_DEADLINE / 2, client.flush(timeout=FLUSH_SECONDS))
        except Exception as error:  # whatever a dying client raises
            if client is self._client:  # an answer that comes late would end nats-py's reader, and nobody would be told
                self._last_error = error
                self.reconnect()
            return False
        return True

    async def publish_acked(self, subject: str, body: bytes, message_id: str, deadline: timedelta) -> Ack | Failure:
        """Publishes to the stream behind `subject` and waits until the stream has it on disk."""
        answer = await self.request(subject, body, deadline, {"Nats-Msg-Id": message_id})
        return answer if isinstance(answer, Failure) else read_ack(answer)

    async def request(
        self, subject: str, body: bytes, deadline: timedelta, headers: dict[str, str] | None = None
    ) -> bytes | Failure:
        """The answer to a message, or why there is none. Three time-outs in a row make a new connection."""
        client = self._client
        if client is None or not client.is_connected:
            return Failure(FailureKind.NOT_CONNECTED)
        if len(body) + HEADER_BYTES > client.max_payload:
            return Failure(FailureKind.TOO_LARGE, f"{len(body)} bytes, the server takes {client.max_payload}")
        try:
            asking = client.request(subject, body, timeout=deadline.total_seconds(), headers=headers)
            answer = await within(deadline, asking)
        except TimeoutError:  # nats.errors.TimeoutError is one
            return self._timed_out(client, deadline)
        except nats.errors.NoRespondersError:
            return Failure(FailureKind.NO_RESPONDERS, "nobody takes this subject")
        except Exception as error:  # whatever a dying client raises, its replacement is under way
            return Failure(FailureKind.NOT_CONNECTED, tls.words(error))
        self._timeouts_in_a_row = 0
        return bytes(answer.data)

    def _timed_out(self, client: Client, deadline: timedelta) -> Failure:
        if client is self._client:
            self._timeouts_in_a_row += 1
            if self._timeouts_in_a_row >= TIMEOUTS_THAT_END_A_CONNECTION:
                self._last_error = TimeoutError(f"{self._timeouts_in_a_row} requests without an answer")
                self.reconnect()
        return Failure(FailureKind.TIMED_OUT, f"no answer within {deadline.total_seconds():g} s")

    async def _supervise(self) -> None:
        attempt = 0
        for server in itertools.cycle(random.sample(self._servers, len(self._servers))):
            client = Client()
            try:
                if await self._connect(client, server):
                    attempt = 0
                    await self._use(client, server)
                else:
                    self._tell_once(f"bus not reachable, trying on server={server.netloc} error={self._why()}")
            finally:
                await close(client)
            await asyncio.sleep(pause_seconds(attempt, self._first_pause))
            attempt += 1

    async def _connect(self, client: Client, server: SplitResult) -> bool:
        """Whether the client is really connected: its own `connect` may also return halfway, or never."""
        self._last_error = None
        try:
            context = self._context(server)
            await dial(client, server, self._identity(), context, self._on_error, self._on_closed)
            for subject, handler in self._handlers if client.is_connected else ():
                await client.subscribe(subject, cb=handler)
        except Exception as error:  # told by the caller; the next attempt is a new client
            self._last_error = self._last_error or error
        return client.is_connected

    async def _use(self, client: Client, server: SplitResult) -> None:
        """Offers the client until it is no longer connected or somebody gives it up."""
        log.info("bus connected server=%s", server.netloc)
        self._give_up.clear()
        self._told.clear()
        self._timeouts_in_a_row = 0
        self._client, self._jetstream = client, client.jetstream()
        self._up.set()
        self.on_connected()
        try:
            while client.is_connected and not self._give_up.is_set():
                # Listened to, and looked at too: nats-py does not always call back when a connection ends.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY.total_seconds()):
                        await self._look.wait()
                self._look.clear()
        finally:
            self._up.clear()
            self._client = self._jetstream = None
        self._tell_once(f"bus connection lost, connecting anew server={server.netloc} error={self._why()}")

    def _identity(self) -> Identity:
        seed = self._seed if isinstance(self._seed, str) else self._seed()
        return Identity(seed, self._inbox_prefix, self._name)

    def _context(self, server: SplitResult) -> ssl.SSLContext | None:
        """Read anew at each connection: the authority may have been replaced. Raises ConfigError."""
        if server.scheme == addresses.CLEAR:
            return None
        if self._ca_file is None:
            raise ConfigError(f"bus.ca: {server.netloc} wants TLS, and no certificate authority is named")
        return tls.client_context(self._ca_file)

    async def _on_closed(self) -> None:
        """Also by a client that was replaced meanwhile: then there is nothing to see."""
        self._look.set()

    async def _on_error(self, error: Exception) -> None:
        """Keeps what the client says of a loss, and tells the rest: refused permissions, failing handlers."""
        self._last_error = error
        if self.is_connected and not isinstance(error, nats.errors.StaleConnectionError | ConnectionError):
            self._tell_once(f"bus error={tls.words(error)}")

    def _tell_once(self, what: str) -> None:
        """Once per connection or outage: a missing permission would otherwise be told at every message."""
        if what not in self._told:
            self._told.add(what)
            log.error(what)

    def _why(self) -> str:
        return tls.words(self._last_error) if self._last_error else "it was closed"


def _checked_address(server: str, insecure: bool) -> SplitResult:
    try:
        return addresses.server_address(server, insecure)
    except addresses.NotSaidError as error:
        raise ConfigError(f"bus.insecure: {error}") from error
    except addresses.BadAddressError as error:
        raise ConfigError(f"bus.servers: {error}") from error
