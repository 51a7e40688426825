"""The workspace as a server on loopback: Web API, response URLs, uploads and Socket Mode."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from aiohttp import web

from bot import clock
from demo.workspace import payloads, seed
from demo.workspace.arguments import decode_json_fields, read_arguments, text
from demo.workspace.errors import SlackError
from demo.workspace.faults import RESPONSE_URL, UPLOAD, Fault, Faults, Kind
from demo.workspace.methods import METHODS, call, check_app_token
from demo.workspace.people import Person
from demo.workspace.rate_limits import RateLimits
from demo.workspace.response_urls import respond
from demo.workspace.sockets import ACK_WITHIN, Sockets
from demo.workspace.state import ApiCall, Envelope, Json
from demo.workspace.world import World

HOST = "127.0.0.1"
SECRET = "<secret>"
CONNECTIONS_OPEN = "apps.connections.open"
LARGEST_BODY = 64 * 1024 * 1024
# what the app's manifest subscribes to
EVENTS = frozenset({"app_home_opened", "subteam_members_changed"})


class Workspace(World):
    """One workspace; `async with` starts and stops it. All state is on it, see the package's docstring."""

    def __init__(
        self,
        *,
        port: int = 0,
        scopes: tuple[str, ...] = seed.SCOPES,
        rate_limits: bool = True,
        now: Callable[[], datetime] = clock.now,
        ack_within: timedelta = ACK_WITHIN,
        events: frozenset[str] = EVENTS,
    ) -> None:
        super().__init__(now, scopes)
        self.port = port
        self.events = set(events)
        self.faults = Faults(now)
        self.rate_limits = RateLimits(now, rate_limits)
        self.sockets = Sockets(now, self.changed, ack_within)
        self._people: dict[str, Person] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop_listening()

    @property
    def api_url(self) -> str:
        return f"{self.base_url}/api/"

    async def listen(self) -> None:
        """Also after `stop_listening`, on the same port and with the same state."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/api/{method}", self._serve_method)
        app.router.add_post("/response/{token}", self._serve_response_url)
        app.router.add_post("/upload/v1/{file}", self._serve_upload)
        app.router.add_get("/link/", self.sockets.serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self.port).start()
        self.port = self._runner.addresses[0][1]
        self.base_url = f"http://{HOST}:{self.port}"

    async def stop_listening(self) -> None:
        """Every connection breaks and new ones are refused: Slack is down."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        for site in list(runner.sites):
            await site.stop()
        await self.sockets.close()
        await runner.cleanup()

    def person(self, name: str) -> Person:
        user = self.user(name)
        if user.id not in self._people:
            self._people[user.id] = Person(self, self.sockets, user, self.events)
        return self._people[user.id]

    async def until_connected(self, sockets: int = 1, seconds: float = 30.0) -> None:
        await self.until(lambda: self.sockets.count >= sockets, seconds)

    async def change_group(
        self, handle: str, add: list[str] | None = None, remove: list[str] | None = None
    ) -> Envelope | None:
        """Changes the members and tells the app, when it subscribes to subteam_members_changed."""
        group = self.group(handle)
        added = [self.user(name).id for name in add or []]
        removed = [self.user(name).id for name in remove or []]
        group.members = [member for member in [*group.members, *added] if member not in removed]
        if "subteam_members_changed" not in self.events:
            return None
        instant = int(self.now().timestamp())
        body: Json = {"type": "subteam_members_changed", "subteam_id": group.id, "team_id": self.team.id}
        body |= {"date_previous_update": instant, "date_update": instant, "event_ts": self.next_ts()}
        body |= {"added_users": added, "added_users_count": len(added)}
        body |= {"removed_users": removed, "removed_users_count": len(removed)}
        return await self.sockets.send_event(payloads.event(self, body))

    def calls_of(self, method: str) -> list[ApiCall]:
        return [one for one in self.calls if one.method == method]

    async def _serve_method(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        try:
            arguments = await read_arguments(request)
        except SlackError as error:
            return web.json_response(error.body())
        token = _token(request, arguments)
        record = self._record(method, arguments)
        return await self._answer(request, record, lambda: self._call(record, token, arguments))

    def _call(self, record: ApiCall, token: str, arguments: Json) -> web.Response:
        wait = self.rate_limits.seconds_to_wait(record.method, text(arguments, "channel"))
        if wait:
            return _rate_limited(record, wait)
        try:
            if record.method == CONNECTIONS_OPEN:
                body = self._open_connection(token, arguments)
            else:
                body = call(self, record.method, token, decode_json_fields(arguments))
        except SlackError as error:
            record.outcome, record.response = error.code, error.body()
        else:
            if "upload_url" in body:
                body["upload_url"] = self.base_url + body["upload_url"]
            record.outcome, record.response = "ok", {"ok": True, **body}
        needed = METHODS[record.method].scopes if record.method in METHODS else ()
        headers = {"X-OAuth-Scopes": ",".join(sorted(self.scopes)), "X-Accepted-OAuth-Scopes": ",".join(needed)}
        return web.json_response(record.response, headers=headers)

    def _open_connection(self, token: str, arguments: Json) -> Json:
        """The token counts in the Authorization header only."""
        check_app_token(self, "" if "token" in arguments else token)
        return {"url": f"ws://{HOST}:{self.port}/link/?ticket={self.sockets.new_ticket()}&app_id={seed.APP_ID}"}

    async def _serve_response_url(self, request: web.Request) -> web.Response:
        body = await read_arguments(request)
        record = self._record(RESPONSE_URL, body)

        def work() -> web.Response:
            try:
                respond(self, request.match_info["token"], decode_json_fields(body))
            except SlackError as error:
                record.outcome, record.response = error.code, error.body()
                status = 404 if error.code in ("used_url", "expired_url") else 400
                return web.json_response(record.response, status=status)
            record.outcome = "ok"
            return web.Response(text="ok")

        return await self._answer(request, record, work)

    async def _serve_upload(self, request: web.Request) -> web.Response:
        content = await _uploaded_bytes(request)
        record = self._record(UPLOAD, {"file": request.match_info["file"], "length": len(content)})

        def work() -> web.Response:
            file = self.files.get(request.match_info["file"])
            if file is None or len(content) != file.length_bytes:
                record.outcome = "refused"
                return web.Response(status=400, text="unknown file or another length than announced")
            file.content = content
            record.outcome = "ok"
            return web.Response(text=f"OK - {len(content)}")

        return await self._answer(request, record, work)

    async def _answer(self, request: web.Request, record: ApiCall, work: Callable[[], web.Response]) -> web.Response:
        """Does the work, unless a fault comes first; a fault may also take the reply away."""
        fault = self.faults.take(record.method)
        response = _instead(fault, record) if fault else None
        if response is None and (fault is None or fault.kind is not Kind.DROPPED):
            response = work()
        self.changed()
        if fault is not None and fault.kind in (Kind.DROPPED, Kind.REPLY_LOST):
            record.outcome = fault.kind.value
            _break(request)
        elif fault is not None and fault.kind is Kind.SLOW:
            await asyncio.sleep(fault.seconds)
        record.answered_at = self.now()
        self.changed()
        return response or web.Response(status=500)

    def _record(self, method: str, arguments: Json) -> ApiCall:
        shown = {key: SECRET if key == "token" else value for key, value in arguments.items()}
        for key in ("blocks", "view", "metadata", "files"):
            shown |= _readable(key, shown.get(key))
        record = ApiCall(self.now(), method, shown)
        self.calls.append(record)
        return record


def _readable(key: str, value: object) -> Json:
    """JSON in a form field as the value it stands for; left as it is when it is not JSON."""
    if not isinstance(value, str):
        return {}
    try:
        return decode_json_fields({key: value})
    except SlackError:
        return {}


def _token(request: web.Request, arguments: Json) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else text(arguments, "token")


def _instead(fault: Fault, record: ApiCall) -> web.Response | None:
    """The answer that the fault gives in place of the work."""
    if fault.kind is Kind.RATE_LIMITED:
        return _rate_limited(record, fault.retry_after)
    if fault.kind is Kind.SERVER_ERROR:
        record.outcome = f"http {fault.status}"
        return web.Response(status=fault.status, text=fault.text)
    if fault.kind is Kind.REFUSED:
        error = SlackError(fault.error, **fault.fields)
        record.outcome, record.response = error.code, error.body()
        return web.json_response(record.response)
    return None


def _rate_limited(record: ApiCall, seconds: int) -> web.Response:
    record.outcome, record.response = "ratelimited", {"ok": False, "error": "ratelimited"}
    return web.json_response(record.response, status=429, headers={"Retry-After": str(seconds)})


def _break(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


async def _uploaded_bytes(request: web.Request) -> bytes:
    """The bytes themselves or a form with one file."""
    if request.content_type != "multipart/form-data":
        return await request.read()
    for field in (await request.post()).values():
        if isinstance(field, web.FileField):
            return field.file.read()
    return b""
