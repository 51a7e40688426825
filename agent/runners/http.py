"""Asks one server, bounded in time and size: no redirects, no proxies, and no secret in what it says of failures."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from wire.ticks import ApiState

CONNECT_SECONDS = 5.0
_MARK = "gpu-oncall"
_AS_IT_IS = {"Accept-Encoding": "identity", "User-Agent": _MARK}
_ILLEGAL_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "accept-encoding", "connection"})


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
    """One server with its keys. `headers_file` is read at every request, so that a new key counts at once."""

    def __init__(self, url: str, headers_file: Path | None, ca_file: Path | None, largest_bytes: int) -> None:
        parts = urlsplit(url)
        self.base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._headers_file, self._largest_bytes = headers_file, largest_bytes
        self._client = httpx.AsyncClient(
            verify=_trust(ca_file) if parts.scheme == "https" else False,
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            headers=_AS_IT_IS,
        )

    async def get(self, path: str, seconds: float) -> Answer | Failure:
        return await self._ask("GET", path, None, seconds)

    async def post(self, path: str, body: Any, seconds: float) -> Answer | Failure:
        return await self._ask("POST", path, body, seconds)

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(self, method: str, path: str, body: Any, seconds: float) -> Answer | Failure:
        try:
            headers = self._headers()
            async with asyncio.timeout(seconds):
                return await self._answer(method, path, body, headers)
        except (TimeoutError, httpx.TimeoutException):
            return Failure(ApiState.TIMEOUT, f"no answer within {seconds:g} s")
        except httpx.ConnectError as error:
            return _no_connection(error)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Failure(ApiState.BROKEN, f"the connection broke: {type(error).__name__}")
        except OSError as error:
            return Failure(ApiState.BROKEN, f"the headers_file cannot be read: {error.strerror}", is_ours=True)
        except ValueError as error:
            return Failure(ApiState.BROKEN, str(error), is_ours=True)

    async def _answer(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer | Failure:
        began = asyncio.get_running_loop().time()
        url = path if path.startswith(("http://", "https://")) else self.base + path
        async with self._client.stream(method, url, json=body, headers=headers) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                return Failure(ApiState.BROKEN, "the answer is compressed, which was not asked for")
            received = bytearray()
            async for part in response.aiter_raw():
                received += part
                if len(received) > self._largest_bytes:
                    return Failure(ApiState.BROKEN, f"the answer is larger than {self._largest_bytes} bytes")
        milliseconds = (asyncio.get_running_loop().time() - began) * 1000
        return Answer(response.status_code, response.headers, bytes(received), milliseconds)

    def _headers(self) -> dict[str, str]:
        """Lines of `Name: value`. Raises OSError, and ValueError that tells no value."""
        if self._headers_file is None:
            return {}
        headers = {}
        for number, line in enumerate(self._headers_file.read_text(encoding="utf-8").splitlines(), start=1):
            name, separator, value = line.partition(":")
            if not line.strip() or line.startswith("#"):
                continue
            if not separator or not name.strip().isascii() or name.strip().lower() in _ILLEGAL_HEADERS:
                raise ValueError(f"line {number} of the headers_file wants `Name: value`")
            headers[name.strip()] = value.strip()
        return headers


def status_words(status: int) -> str:
    if 300 <= status < 400:
        return f"it answered with status {status}, a redirect, which is not followed"
    if status in (401, 403):
        return f"it answered with status {status}: the key in headers_file is missing or wrong"
    return f"it answered with status {status}"


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))


def _no_connection(error: httpx.ConnectError) -> Failure:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Failure(ApiState.BROKEN, f"its certificate is not trusted: {cause.verify_message}", is_ours=True)
        if isinstance(cause, ssl.SSLError):
            return Failure(
                ApiState.BROKEN, f"no TLS connection: {cause.reason or 'the handshake failed'}", is_ours=True
            )
        if isinstance(cause, ConnectionRefusedError):
            return Failure(ApiState.REFUSED, "the connection was refused")
        cause = cause.__cause__ or cause.__context__
    return Failure(ApiState.REFUSED, "no connection")
