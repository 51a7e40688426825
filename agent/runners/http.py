"""Asks one server, bounded in time and size: no redirects, no proxies, and no secret in what it says of failures."""

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h11
import msgspec

from wire.ticks import ApiState

_MARK = "gpu-oncall"
_READ_BYTES = 65536
# The node has no files, ports or memory left to ask with, which says nothing about the runner.
_OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOMEM, errno.ENOBUFS})
_OURS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "accept-encoding", "connection"})


class Answer(msgspec.Struct, frozen=True):
    """A whole body of an allowed size. `date` is the server's own clock, "" where it does not tell."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    milliseconds: float


class Failure(msgspec.Struct, frozen=True):
    """`why` names no URL and no header. `is_ours`: nothing was asked, or it was our config that kept us from it."""

    state: ApiState
    why: str
    is_ours: bool = False


class Server:
    """One server with its keys. `headers_file` is read at every request, so that a new key counts at once.

    Every request has a connection of its own: between two ticks a server would close it anyway.
    """

    def __init__(self, url: str, headers_file: Path | None, ca_file: Path | None, largest_bytes: int) -> None:
        parts = urlsplit(url)
        self._host, self._netloc, self._base = parts.hostname or "", parts.netloc, parts.path.rstrip("/")
        self._is_number = _is_number(self._host)
        self._query = f"?{parts.query}" if parts.query else ""
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._headers_file, self._largest_bytes = headers_file, largest_bytes
        self._tls = _trust(ca_file) if parts.scheme == "https" else None

    async def get(self, path: str, seconds: float) -> Answer | Failure:
        return await self._ask("GET", path, b"", seconds)

    async def post(self, path: str, body: Any, seconds: float) -> Answer | Failure:
        return await self._ask("POST", path, msgspec.json.encode(body), seconds)

    async def _ask(self, method: str, path: str, body: bytes, seconds: float) -> Answer | Failure:
        try:
            request = h11.Request(method=method, target=self._target(path), headers=self._headers(body))
        except OSError as error:
            why = f"the headers_file cannot be read: {error.strerror}"
            return Failure(ApiState.BROKEN, why, is_ours=True)
        except _BadHeadersError as error:
            return Failure(ApiState.BROKEN, str(error), is_ours=True)
        except (ValueError, h11.LocalProtocolError):  # their own words would show a key
            return Failure(ApiState.BROKEN, "the headers_file holds what no header may hold", is_ours=True)
        is_found = False
        try:
            async with asyncio.timeout(seconds):
                await self._look_up()
                is_found = True
                return await self._exchange(request, body)
        except TimeoutError:
            why = f"no answer within {seconds:g} s"
            return Failure(ApiState.TIMEOUT, why) if is_found else _not_looked_up(why)
        except (OSError, h11.RemoteProtocolError) as error:
            return _failure(error)

    async def _look_up(self) -> None:
        """Apart from the connection: a resolver that is away says nothing about the runner. A number needs none."""
        if self._is_number:
            return
        loop = asyncio.get_running_loop()
        await loop.getaddrinfo(self._host, self.port, type=socket.SOCK_STREAM)

    async def _exchange(self, request: h11.Request, body: bytes) -> Answer | Failure:
        began = asyncio.get_running_loop().time()
        reader, writer = await asyncio.open_connection(self._host, self.port, ssl=self._tls)
        try:
            connection = h11.Connection(h11.CLIENT)
            events = (request, h11.Data(data=body), h11.EndOfMessage()) if body else (request, h11.EndOfMessage())
            writer.write(b"".join(connection.send(event) or b"" for event in events))
            await writer.drain()
            received = await _received(connection, reader, self._largest_bytes)
        finally:
            writer.transport.abort()
        if isinstance(received, Failure):
            return received
        response, content = received
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        if headers.get("content-encoding", "identity") != "identity":
            return Failure(ApiState.BROKEN, "the answer is compressed, which was not asked for")
        milliseconds = (asyncio.get_running_loop().time() - began) * 1000
        return Answer(response.status_code, headers, content, milliseconds)

    def _target(self, path: str) -> str:
        """With a path of "" the URL itself, as it was given."""
        return self._base + path if path else (self._base or "/") + self._query

    def _headers(self, body: bytes) -> list[tuple[str, str]]:
        own = [("Host", self._netloc), ("User-Agent", _MARK), ("Connection", "close"), ("Accept-Encoding", "identity")]
        if body:
            own += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        return [*own, *_given(self._headers_file)]


class _BadHeadersError(ValueError):
    """Tells the line and never what is in it."""


def _given(headers_file: Path | None) -> list[tuple[str, str]]:
    """Lines of `Name: value`. Raises OSError and _BadHeadersError."""
    if headers_file is None:
        return []
    headers = []
    for number, line in enumerate(headers_file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        name, separator, value = line.partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not separator or not name.strip() or name.strip().lower() in _OURS:
            raise _BadHeadersError(f"line {number} of the headers_file wants `Name: value`")
        headers.append((name.strip(), value.strip()))
    return headers


async def _received(
    connection: h11.Connection, reader: asyncio.StreamReader, largest_bytes: int
) -> tuple[h11.Response, bytes] | Failure:
    """The head and the whole body. Raises OSError and RemoteProtocolError, also for a body that was cut off."""
    response, content = None, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            content += event.data
            if len(content) > largest_bytes:
                return Failure(ApiState.BROKEN, f"the answer is larger than {largest_bytes} bytes")
        elif isinstance(event, h11.EndOfMessage) and response is not None:
            return response, bytes(content)
        elif isinstance(event, h11.ConnectionClosed | h11.EndOfMessage):
            return Failure(ApiState.BROKEN, "it closed the connection without an answer")


def status_words(status: int) -> str:
    if 300 <= status < 400:
        return f"it answered with status {status}, a redirect, which is not followed"
    if status in (401, 403):
        return f"it answered with status {status}: the key in headers_file is missing or wrong"
    return f"it answered with status {status}"


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _not_looked_up(why: str) -> Failure:
    return Failure(ApiState.BROKEN, f"its name could not be looked up: {why}", is_ours=True)


def _failure(error: OSError | h11.RemoteProtocolError) -> Failure:
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        return _not_looked_up(error.strerror or "the resolver does not answer")
    if isinstance(error, OSError) and error.errno in _OUT_OF:
        return Failure(ApiState.BROKEN, f"this node cannot ask: {error.strerror}", is_ours=True)
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure(ApiState.BROKEN, f"its certificate is not trusted: {error.verify_message}", is_ours=True)
    if isinstance(error, ssl.SSLError):
        return Failure(ApiState.BROKEN, f"no TLS connection: {error.reason}", is_ours=True)
    if isinstance(error, ConnectionRefusedError):
        return Failure(ApiState.REFUSED, "the connection was refused")
    if isinstance(error, ConnectionError | h11.RemoteProtocolError):
        return Failure(ApiState.BROKEN, "the connection broke before the answer was complete")
    return Failure(ApiState.REFUSED, f"no connection: {error.strerror or type(error).__name__}")
