"""Socket Mode: the open WebSockets, one envelope to exactly one of them, and the wait for its acknowledgement."""

import asyncio
import json
import random
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from aiohttp import WSMsgType, web

from demo.workspace import seed
from demo.workspace.state import Envelope, Json

MOST_SOCKETS = 10
ACK_WITHIN = timedelta(seconds=3)
EVENT_RETRIES = 3
CONNECTION_SECONDS = 18_060


class Sockets:
    """`envelopes` is the record. `ack_within` is 3 s at Slack; tests of failures may shorten it."""

    def __init__(
        self, now: Callable[[], datetime], changed: Callable[[], None], ack_within: timedelta = ACK_WITHIN
    ) -> None:
        self.ack_within = ack_within
        self.envelopes: list[Envelope] = []
        self._now = now
        self._changed = changed
        self._open: dict[int, web.WebSocketResponse] = {}
        self._opened = 0
        self._tickets: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._random = random.Random(0)
        self._duplicates = 0
        self._swallowed = 0

    @property
    def count(self) -> int:
        return len(self._open)

    @property
    def numbers(self) -> list[int]:
        """Sockets are numbered from 1 in the order in which they were opened."""
        return list(self._open)

    def new_ticket(self) -> str:
        """Good for one connection."""
        ticket = secrets.token_hex(12)
        self._tickets.add(ticket)
        return ticket

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """One connection from hello to its end."""
        if request.query.get("ticket", "") not in self._tickets:
            raise web.HTTPForbidden(text="ticket unknown or used")
        socket = web.WebSocketResponse(heartbeat=30)
        await socket.prepare(request)
        self._tickets.discard(request.query["ticket"])
        if self.count >= MOST_SOCKETS:
            await self._disconnect(socket, "too_many_websockets")
            return socket
        self._opened += 1
        number = self._opened
        self._open[number] = socket
        try:
            await socket.send_json(self._hello())
            self._changed()
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._take_ack(message.data)
        finally:
            self._open.pop(number, None)
            self._changed()
        return socket

    async def send(self, kind: str, payload: Json, answerable: bool = False) -> Envelope:
        """Sends to one socket and waits; the returned envelope is acked or has a `failure`."""
        envelope = await self._attempt(kind, payload, answerable, retry=0)
        if self._duplicates:
            self._duplicates -= 1
            await self._attempt(kind, payload, answerable, retry=0)
        return envelope

    async def send_event(self, payload: Json) -> Envelope:
        """As `send`; Slack repeats an event that nobody acknowledged, up to three times."""
        envelope = await self.send("events_api", payload)
        for retry in range(1, EVENT_RETRIES + 1):
            if envelope.failure != "timeout":
                break
            envelope = await self._attempt("events_api", payload, False, retry)
        return envelope

    async def warn(self, number: int | None = None) -> None:
        """Slack says this about 10 s before it closes a connection."""
        for socket in self._chosen(number):
            await socket.send_json(_goodbye("warning"))

    async def refresh(self, number: int | None = None) -> None:
        """The usual end of a connection after some hours: asks to reconnect, then closes."""
        for socket in self._chosen(number):
            await self._disconnect(socket, "refresh_requested")

    async def disable_link(self, number: int | None = None) -> None:
        """What an app sees whose Socket Mode was switched off."""
        for socket in self._chosen(number):
            await self._disconnect(socket, "link_disabled")

    async def close(self, number: int | None = None) -> None:
        """Closes without a word; all of them without a number."""
        for socket in self._chosen(number):
            await socket.close()

    def duplicate(self, times: int = 1) -> None:
        """The next envelopes are delivered twice: Slack never promises single delivery."""
        self._duplicates += times

    def swallow(self, times: int = 1) -> None:
        """The next envelopes are lost on their way although the socket looks healthy."""
        self._swallowed += times

    async def _attempt(self, kind: str, payload: Json, answerable: bool, retry: int) -> Envelope:
        envelope = Envelope(secrets.token_hex(16), kind, payload, None, self._now(), retry)
        self.envelopes.append(envelope)
        if not self._open:
            envelope.failure = "no_connection"
            self._changed()
            return envelope
        envelope.socket = self._random.choice(list(self._open))
        acked = asyncio.get_running_loop().create_future()
        self._waiting[envelope.id] = acked
        try:
            await self._write(envelope, answerable)
            await asyncio.wait_for(acked, self.ack_within.total_seconds())
        except TimeoutError:
            envelope.failure = "timeout"
        finally:
            del self._waiting[envelope.id]
            self._changed()
        return envelope

    async def _write(self, envelope: Envelope, answerable: bool) -> None:
        if self._swallowed:
            self._swallowed -= 1
            return
        frame: Json = {
            "envelope_id": envelope.id,
            "type": envelope.type,
            "payload": envelope.payload,
            "accepts_response_payload": answerable,
        }
        if envelope.type == "events_api":
            reason = "timeout" if envelope.retry_attempt else ""
            frame |= {"retry_attempt": envelope.retry_attempt, "retry_reason": reason}
        assert envelope.socket is not None
        try:
            await self._open[envelope.socket].send_json(frame)
        except (ConnectionError, KeyError):
            return  # the socket died under us: nobody acknowledges, the user sees the failure

    def _take_ack(self, data: str) -> None:
        frame: Any = json.loads(data)
        envelope = next((e for e in self.envelopes if e.id == frame.get("envelope_id")), None)
        if envelope is None or envelope.acked_at is not None:
            return
        envelope.acked_at = self._now()
        answer = frame.get("payload")
        envelope.answer = answer if isinstance(answer, dict) and answer else None
        waiting = self._waiting.get(envelope.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        self._changed()

    def _chosen(self, number: int | None) -> list[web.WebSocketResponse]:
        return list(self._open.values()) if number is None else [self._open[number]]

    async def _disconnect(self, socket: web.WebSocketResponse, reason: str) -> None:
        await socket.send_json(_goodbye(reason))
        await socket.close()

    def _hello(self) -> Json:
        debug = {"host": "localhost", "build_number": 1, "approximate_connection_time": CONNECTION_SECONDS}
        return {
            "type": "hello",
            "num_connections": self.count,
            "debug_info": debug,
            "connection_info": {"app_id": seed.APP_ID},
        }


def _goodbye(reason: str) -> Json:
    return {"type": "disconnect", "reason": reason, "debug_info": {"host": "localhost"}}
