"""A network that can be cut: forwards connections to one port of this machine, and stops when it is told to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import Enum
from typing import Self


class Cut(Enum):
    """What a cut is like for both ends."""

    REFUSED = "every connection ends, and none can be made"
    FROZEN = "nothing goes through, and all of it comes later"
    SWALLOWED = "everything that is sent is lost, and the connections end when the network is back"


class Proxy:
    """`async with` listens on `port`."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._cut: Cut | None = None
        self._whole = asyncio.Event()
        self._whole.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        self._whole.set()
        self._end_all()

    @contextlib.asynccontextmanager
    async def cut(self, how: Cut) -> AsyncIterator[None]:
        self._cut = how
        self._whole.clear()
        if how is Cut.REFUSED:
            self._end_all()
        try:
            yield
        finally:
            if how is Cut.SWALLOWED:
                self._end_all()
            self._cut = None
            self._whole.set()

    def _end_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut is Cut.REFUSED:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError):
                onward, back = await asyncio.open_connection("127.0.0.1", self._target_port)
                self._writers.add(back)
                try:
                    await asyncio.gather(self._pump(reader, back), self._pump(onward, writer))
                finally:
                    back.transport.abort()
                    self._writers.discard(back)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one end closes: then both do."""
        while data := await reader.read(65536):
            if self._cut is Cut.SWALLOWED:
                continue
            await self._whole.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
