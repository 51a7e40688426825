"""The collector `dcgm`: a dcgm-exporter says how quiet a GPU is, NVML or nvidia-smi says who holds it."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from msgspec.structs import replace

from agent.collectors import Collector
from agent.collectors.dcgm_page import BadPageError, DcgmPage, parse_page
from agent.reading import GpuReading, Sweep, Unreadable

LARGEST_PAGE_BYTES = 8 * 1024 * 1024
STALE_AFTER_INTERVALS = 3
PAGE_DEADLINE = timedelta(seconds=3)  # the page comes out of the exporter's memory; the sweep has a deadline of its own
_NOT_ON_PAGE = Unreadable("the exporter's page does not have this GPU")


class DcgmCollector:
    """Whatever either source says counts: a GPU is idle only where both say so.

    The page has no time stamps: when none of its values moved for three of the exporter's intervals, it is stale.
    """

    name = "dcgm"

    def __init__(self, processes: Collector, url: str, collect_interval: timedelta, deadline: timedelta) -> None:
        self._processes = processes
        self._url = url
        self._stale_after_seconds = STALE_AFTER_INTERVALS * collect_interval.total_seconds()
        self._deadline_seconds = min(deadline, PAGE_DEADLINE).total_seconds()
        self._values: frozenset[str] = frozenset()
        self._moved_at_seconds = 0.0

    async def sweep(self) -> Sweep:
        """The page comes first: the processes are read after it, never before."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                page = parse_page(await fetch_page(self._url))
        except (BadPageError, OSError, TimeoutError) as error:
            return Sweep(error=f"the dcgm-exporter cannot be used: {str(error) or 'it did not answer in time'}")
        sweep = await self._processes.sweep()
        return sweep if sweep.error is not None else self._joined(sweep, page)

    async def let_go(self) -> str | None:
        """The exporter holds NVML open by itself: whoever resets a GPU must stop it too."""
        return await self._processes.let_go()

    async def close(self) -> None:
        await self._processes.close()

    def _joined(self, sweep: Sweep, page: DcgmPage) -> Sweep:
        shown = page.utilization_percent.keys() | page.memory_used_bytes.keys()
        foreign = shown - {gpu.uuid for gpu in sweep.gpus}
        if foreign:
            return Sweep(error=f"the dcgm-exporter shows a GPU that is not of this node: {min(foreign)[:80]}")
        stale = self._stale(page)
        gpus = tuple(_with_page(gpu, page, stale) for gpu in sweep.gpus)
        return replace(sweep, gpus=gpus)

    def _stale(self, page: DcgmPage) -> Unreadable | None:
        now_seconds = asyncio.get_running_loop().time()
        if page.moving != self._values:
            self._values, self._moved_at_seconds = page.moving, now_seconds
        unmoved_seconds = now_seconds - self._moved_at_seconds
        if unmoved_seconds < self._stale_after_seconds:
            return None
        return Unreadable("the exporter's page is stale: none of its values moved for three collection intervals")


def _with_page(gpu: GpuReading, page: DcgmPage, stale: Unreadable | None) -> GpuReading:
    return replace(
        gpu,
        utilization_percent=stale or _both(gpu.utilization_percent, _of(page.utilization_percent, gpu.uuid)),
        memory_used_bytes=stale or _both(gpu.memory_used_bytes, _of(page.memory_used_bytes, gpu.uuid)),
    )


def _of(values: Mapping[str, int], uuid: str) -> int | Unreadable:
    return values.get(uuid, _NOT_ON_PAGE)


def _both(first: int | Unreadable, second: int | Unreadable) -> int | Unreadable:
    if isinstance(first, Unreadable):
        return first
    return second if isinstance(second, Unreadable) else max(first, second)


async def fetch_page(url: str) -> str:
    """By HTTP/1.0, whose answer ends with the connection. Raises OSError and BadPageError."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: text/plain\r\n\r\n".encode("ascii"))
        await writer.drain()
        answer = await _bounded(reader)
    finally:
        writer.close()
    return _body(answer)


async def _bounded(reader: asyncio.StreamReader) -> bytes:
    received = bytearray()
    while part := await reader.read(65536):
        received += part
        if len(received) > LARGEST_PAGE_BYTES:
            raise BadPageError(f"its page is longer than {LARGEST_PAGE_BYTES} bytes")
    return bytes(received)


def _body(answer: bytes) -> str:
    head, separator, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode("latin-1").split("\r\n")
    if not separator or status.split(" ")[1:2] != ["200"]:
        raise BadPageError(f"it answered {status[:80]!r} in place of a page")
    fields = [line.partition(":") for line in headers]
    lengths = {value.strip() for name, _, value in fields if name.lower() == "content-length"}
    if lengths - {str(len(body))}:
        raise BadPageError("its page was cut off")
    return body.decode("utf-8", errors="replace")
