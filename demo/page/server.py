"""The page over HTTP: only for this machine's browsers, and no other site may speak through them."""

import asyncio
import contextlib
import errno
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import TypeVar

import msgspec
from aiohttp import web

from demo.page.deeds import Command, Deed, carry_out
from demo.page.director import Ask, Director
from demo.page.seen import picture_type, seen_by
from demo.workspace import Person, Workspace
from demo.workspace.state import Json

HOST = "127.0.0.1"
PORT = 8765
PORTS_TRIED = 10
LARGEST_PORT = 65535
TOKEN_HEADER = "X-Page-Token"
LARGEST_BODY = 256 * 1024
SETTLE_SECONDS = 0.05  # several changes in one breath are one snapshot
KEEP_ALIVE_SECONDS = 15.0
TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
T = TypeVar("T")
DEEDS: msgspec.json.Decoder[Deed] = msgspec.json.Decoder(Deed)
ASKS = msgspec.json.Decoder(Ask)
STATIC = resources.files("demo.page") / "static"


class PageCannotListen(Exception):
    """No port was free; the text says which were tried."""


class Page:
    """`commands` and `shortcuts` as in the app's manifest. `director` None: there is no story beside the workspace."""

    def __init__(
        self,
        workspace: Workspace,
        commands: Sequence[Mapping[str, object]] = (),
        shortcuts: Sequence[Mapping[str, object]] = (),
        director: Director | None = None,
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._workspace = workspace
        self._commands = commands
        self._shortcuts = shortcuts
        self._director = director
        self._hosts: set[str] = set()

    @asynccontextmanager
    async def serving(self, port: int = PORT, ports_tried: int = PORTS_TRIED) -> AsyncIterator[str]:
        """Gives the address. Port 0 takes any. Raises PageCannotListen when all of `ports_tried` ports are busy."""
        app = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/static/{name}", self._static),
                web.get("/files/{id}", self._file),
                web.get("/events", self._events),
                web.post("/deed", self._deed),
                web.post("/story", self._story),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            bound = await _bind(runner, port, 1 if port == 0 else ports_tried)
            self._hosts = {f"{HOST}:{bound}", f"localhost:{bound}"}
            yield f"http://{HOST}:{bound}"
        finally:
            await runner.cleanup()

    # --- who may ask ------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """A name that is not ours means that another site's name points here (DNS rebinding)."""
        try:
            if request.host not in self._hosts:
                raise web.HTTPForbidden(text="This page answers only under its own address on this machine.\n")
            if request.path in ("/events", "/deed", "/story"):
                self._check_token(request)
            response = await handler(request)
        except web.HTTPException as refused:
            refused.headers.update(HEADERS)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _check_token(self, request: web.Request) -> None:
        """The page knows the token; another site can send requests here and cannot read the page."""
        given = request.headers.get(TOKEN_HEADER) or request.query.get("token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise web.HTTPForbidden(text="The demo was started again. Load the page again.\n")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            raise web.HTTPForbidden(text="This comes from another site.\n")

    # --- what is served ---------------------------------------------------------------------------------------------

    async def _index(self, request: web.Request) -> web.Response:
        text = (STATIC / "index.html").read_text(encoding="utf-8").replace("{token}", self.token)
        return web.Response(text=text, content_type="text/html")

    async def _static(self, request: web.Request) -> web.Response:
        file = STATIC / request.match_info["name"]
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is None or kind == "text/html" or file.name not in {one.name for one in STATIC.iterdir()}:
            raise web.HTTPNotFound()
        return web.Response(text=file.read_text(encoding="utf-8"), content_type=kind)

    async def _file(self, request: web.Request) -> web.Response:
        """Pictures only as pictures; anything else is handed over as bytes, never shown."""
        file = self._workspace.files.get(request.match_info["id"])
        if file is None or file.content is None:
            raise web.HTTPNotFound()
        kind = picture_type(file.content)
        how = {} if kind else {"Content-Disposition": "attachment"}
        return web.Response(body=file.content, content_type=kind or "application/octet-stream", headers=how)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: a snapshot at once, and one after every change."""
        person = self._person(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # the browser has left
            await self._tell(response, person)
        return response

    async def _tell(self, response: web.StreamResponse, person: Person) -> None:
        last = ""
        while True:
            shown = self._snapshot(person)
            await response.write(b": still here\n\n" if shown == last else f"data: {shown}\n\n".encode())
            last = shown
            await self._change(person, last)

    async def _change(self, person: Person, last: str) -> None:
        try:
            await self._workspace.until(lambda: self._snapshot(person) != last, KEEP_ALIVE_SECONDS)
            await asyncio.sleep(SETTLE_SECONDS)
        except TimeoutError:
            return

    def _snapshot(self, person: Person) -> str:
        story = self._director.told() if self._director else None
        app: Json = {"commands": self._commands, "shortcuts": self._shortcuts, "story": story}
        return json.dumps(seen_by(self._workspace, person) | app)

    async def _deed(self, request: web.Request) -> web.Response:
        deed = _decoded(await request.read(), DEEDS)
        if self._director is not None:
            self._director.somebody_acted()
        if isinstance(deed, Command) and deed.name not in {one["command"] for one in self._commands}:
            return web.json_response({"failure": f"{deed.name} is not a command of this app. Type / to see them."})
        failure = await carry_out(self._workspace, self._person(request), deed)
        self._workspace.changed()  # what was wrong with inputs changes without a word
        return web.json_response({"failure": failure})

    async def _story(self, request: web.Request) -> web.Response:
        asked = _decoded(await request.read(), ASKS)
        if self._director is None:
            raise web.HTTPNotFound()
        return web.json_response({"failure": self._director.obey(asked)})

    def _person(self, request: web.Request) -> Person:
        try:
            return self._workspace.person(request.query.get("as", "alice"))
        except KeyError as error:
            raise web.HTTPNotFound(text=f"{error.args[0]}\n") from error


def _decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise web.HTTPBadRequest(text=f"Not understood: {error}\n") from error


async def _bind(runner: web.AppRunner, port: int, ports_tried: int) -> int:
    last = min(port + ports_tried - 1, LARGEST_PORT)
    for candidate in range(port, last + 1):
        site = web.TCPSite(runner, HOST, candidate)
        try:
            await site.start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise PageCannotListen(f"The page cannot listen on {HOST}:{candidate}: {error.strerror}.") from error
            continue
        return int(runner.addresses[0][1])
    tried = f"{port} is" if last == port else f"{port} to {last} are"
    raise PageCannotListen(f"The page found no free port: {tried} in use. Name another: ARGS='--port 9000'.")
