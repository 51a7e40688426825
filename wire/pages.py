"""A few pages over HTTP for probes and Prometheus, in a thread of their own.

The thread asks the program's event loop and waits a bounded time: a program that hangs answers 503 instead of nothing.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
TEXT = "text/plain; charset=utf-8"
_CLIENT_SECONDS = 10.0  # a client that says nothing holds its thread no longer
_MOST_CLIENTS = 16


class Page(NamedTuple):
    """`status` is HTTP's."""

    status: int
    body: bytes
    content_type: str = TEXT


Routes = Mapping[str, Callable[[], Awaitable[Page]]]


@contextlib.contextmanager
def pages(listen: tuple[str, int] | None, routes: Routes, answer_seconds: float = ANSWER_SECONDS) -> Iterator[int]:
    """Serves `routes` (paths) until the end of the block; gives the port, 0 when nothing is served.

    A port that is taken is told and costs nothing else: nobody's watch may end because of a page about it.
    """
    server = _server(listen, routes, answer_seconds) if listen else None
    if server is None:
        yield 0
        return
    thread = threading.Thread(target=server.serve_forever, name="pages", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _server(listen: tuple[str, int], routes: Routes, answer_seconds: float) -> ThreadingHTTPServer | None:
    loop = asyncio.get_running_loop()
    places = threading.BoundedSemaphore(_MOST_CLIENTS)

    class Handler(_Handler):
        def answer(self) -> Page:
            make = routes.get(self.path.partition("?")[0])
            if make is None:
                return Page(404, f"there are {', '.join(routes)}\n".encode())
            if not places.acquire(blocking=False):
                return Page(503, b"too many ask at once\n")
            try:
                return _made(loop, make, answer_seconds)
            finally:
                places.release()

    try:
        return _Server(listen, Handler)
    except OSError as error:
        log.error("pages for probes and metrics cannot be served listen=%s:%d error=%s", *listen, error.strerror)
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_SECONDS
    server_version = "gpu-oncall"
    sys_version = ""

    def answer(self) -> Page:
        raise NotImplementedError

    def do_GET(self) -> None:
        page = self.answer()
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page.body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Every scrape would be a line."""


def _made(loop: asyncio.AbstractEventLoop, make: Callable[[], Awaitable[Page]], seconds: float) -> Page:
    async def bounded() -> Page:
        async with asyncio.timeout(seconds):
            return await make()

    waiting = asyncio.run_coroutine_threadsafe(bounded(), loop)
    try:
        return waiting.result(2 * seconds)
    except TimeoutError:
        waiting.cancel()
        return Page(503, f"no answer within {seconds:g} s: this program hangs\n".encode())
    except Exception as error:
        log.exception("a page could not be made")
        return Page(500, f"{type(error).__name__}: see the log\n".encode())
