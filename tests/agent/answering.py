"""A server on loopback that answers every path as a test wants, and keeps what it was asked."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    """`hang`: the head is never sent. `cut`: the body ends before its length. `drip`: a byte now and then for ever."""

    body: bytes | str | dict | list = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    cut: bool = False
    drip: bool = False

    def bytes(self) -> bytes:
        if isinstance(self.body, dict | list):
            return json.dumps(self.body).encode()
        return self.body.encode() if isinstance(self.body, str) else self.body


Route = Reply | Callable[[Asked], Reply]


class Answering:
    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.asked: list[Asked] = []
        self.url = ""
        self.release = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    def paths(self, method: str = "GET") -> list[str]:
        return [asked.path for asked in self.asked if asked.method == method]

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def close(self) -> None:
        self.release.set()
        for task in (tasks := set(self._serving)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(0)  # aborted connections are closed in the loop's next turn

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while asked := await self._request(reader):
                self.asked.append(asked)
                route = self.routes.get(asked.path, Reply(b"not found", 404))
                if not await self._reply(route(asked) if callable(route) else route, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()

    async def _request(self, reader: asyncio.StreamReader) -> Asked | None:
        line = await reader.readline()
        if not line:
            return None
        method, path, _ = line.decode().split(" ", 2)
        headers = {}
        while (row := (await reader.readline()).decode().strip()) != "":
            name, _, value = row.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Asked(method, path, headers, json.loads(body) if body else None)

    async def _reply(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        if reply.hang:
            await self.release.wait()
            return False
        body = reply.bytes()
        length = len(body) + 10 if reply.cut or reply.drip else len(body)
        headers = {"Content-Length": str(length), **reply.headers}
        head = f"HTTP/1.1 {reply.status} Said\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        if reply.drip:
            await self.release.wait()
        return not (reply.cut or reply.drip)


@contextlib.asynccontextmanager
async def answering(tls: Path | None = None, **routes: Route) -> AsyncIterator[Answering]:
    """Routes by path; keyword arguments cannot be paths, so most tests set `routes` themselves."""
    server = Answering()
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls)
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    server.routes.update(routes)
    try:
        yield server
    finally:
        listening.close()
        await server.close()
