"""One attempt to connect to a NATS server; who wants to stay connected uses `wire/link.py`."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar
from urllib.parse import SplitResult

from nats.aio.client import Client

from wire import nkey, tls

CONNECT_DEADLINE = timedelta(seconds=20)  # the server itself may take 15 s over TLS and authorization
CLOSE_DEADLINE = timedelta(seconds=2)
PING_EVERY = timedelta(seconds=20)  # two unanswered ones end the connection: a dead link is noticed within 60 s

Result = TypeVar("Result")
OnError = Callable[[Exception], Awaitable[None]]
OnClosed = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Identity:
    """Who connects. `seed` is secret and never printed; `name` is what the server shows."""

    seed: str = field(repr=False)
    inbox_prefix: str
    name: str


async def dial(
    client: Client,
    server: SplitResult,
    identity: Identity,
    context: ssl.SSLContext | None,
    on_error: OnError,
    on_closed: OnClosed | None = None,
) -> None:
    """Connects a new client, once. It may return unconnected: look at `is_connected`. Raises whatever went wrong.

    With `context` the server must speak TLS first: one that greets in clear could be somebody who strips TLS.
    """
    # nats-py sends the public key only if it read the seed itself, with a package that we do without.
    client._public_nkey = nkey.public_key(identity.seed)
    await within(
        CONNECT_DEADLINE,
        client.connect(
            servers=[server.geturl()],
            name=identity.name,
            inbox_prefix=identity.inbox_prefix,
            signature_cb=lambda nonce: base64.b64encode(nkey.sign(identity.seed, nonce.encode())),
            error_cb=on_error,
            closed_cb=on_closed,
            allow_reconnect=False,
            max_reconnect_attempts=1,  # with 0 or less nats-py stays with a silent server for ever
            reconnect_time_wait=0,
            connect_timeout=int(CONNECT_DEADLINE.total_seconds()),
            ping_interval=int(PING_EVERY.total_seconds()),
            tls=context,
            tls_hostname=server.hostname if context else None,
            tls_handshake_first=context is not None,
        ),
    )


class Visit:
    """A connection for a short piece of work, and what the server complained of meanwhile."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.complaints: list[str] = []

    async def on_error(self, error: Exception) -> None:
        self.complaints.append(tls.words(error))


@contextlib.asynccontextmanager
async def visit(server: SplitResult, identity: Identity, context: ssl.SSLContext | None) -> AsyncIterator[Visit]:
    """Connects, and closes at the end. Raises ConnectionError with the reason where that is not possible."""
    client = Client()
    visit = Visit(client)
    try:
        try:
            await dial(client, server, identity, context, visit.on_error)
        except Exception as error:  # whatever nats-py raises, the attempt has failed
            raise ConnectionError((visit.complaints or [tls.words(error)])[0]) from error
        if not client.is_connected:
            raise ConnectionError((visit.complaints or ["the server did not let us in"])[0])
        yield visit
    finally:
        await close(client)


async def close(client: Client) -> None:
    """A half-open connection can make a close wait for ever, and what the client raises here no longer matters."""
    with contextlib.suppress(Exception):
        await within(CLOSE_DEADLINE, client.close())


async def within(deadline: timedelta, work: Coroutine[None, None, Result]) -> Result:
    """Raises TimeoutError at the deadline.

    nats-py swallows cancellations in places. A task of its own can then be left behind, and the caller's cancellation
    is never lost. It gets a moment to end: a connect that goes on beside its own close would leave tasks running.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline.total_seconds())
    finally:
        if task.cancel():
            await asyncio.wait({task}, timeout=CLOSE_DEADLINE.total_seconds())
    if not done:
        raise TimeoutError
    return task.result()
