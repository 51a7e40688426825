"""Reads the stream through its consumer: the next messages come while the last ones are stored.

nats-py's own fetch waits for both in turn, and makes two tasks of each message.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import StatusCode
from nats.js.errors import APIError

from bot import clock
from wire import subjects

AHEAD = 500  # at most twice as many are here and not acknowledged: fewer than MAX_ACK_PENDING of the stream
WAIT_SECONDS = 2.0  # a request that the server forgot, at its restart or a change of leaders, costs no more
TOGETHER_SECONDS = 0.05
_NEXT = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.STREAM}.{subjects.CONSUMER}"
_NONE_NOW = (StatusCode.NO_MESSAGES, StatusCode.REQUEST_TIMEOUT, StatusCode.CONFLICT)


@contextlib.asynccontextmanager
async def pulling(jetstream: JetStreamContext) -> AsyncIterator["Pull"]:
    """On this connection, from where the consumer is. Raises nats.errors.Error."""
    client = jetstream._nc
    pull = Pull(jetstream, f"{subjects.inbox(subjects.BOT)}.{client._nuid.next().decode()}")
    subscription = await client.subscribe(pull.inbox, cb=pull.on_message)
    try:
        yield pull
    finally:
        with contextlib.suppress(nats.errors.Error, TimeoutError, OSError):
            await subscription.unsubscribe()


class Pull:
    """Messages in the order of the stream. What was not acknowledged comes again after `reset_consumer`."""

    def __init__(self, jetstream: JetStreamContext, inbox: str) -> None:
        self._client = jetstream._nc
        self.inbox = inbox
        self._here: deque[Msg] = deque()
        self._owed = 0
        self._asked_seconds = 0.0
        self._woken = asyncio.Event()
        self._trouble: APIError | None = None

    async def on_message(self, message: Msg) -> None:
        """Told by the subscription: the next message, or that none comes."""
        status = JetStreamContext.is_status_msg(message)
        if status is None:
            self._here.append(message)
            self._owed -= 1
            self._woken.set()
        elif status in _NONE_NOW:
            self._owed = 0
        elif status != StatusCode.CONTROL_MESSAGE:
            self._trouble = APIError(code=int(status), description=f"the server refuses to send: {status}")
            self._woken.set()

    async def take(self, most: int) -> list[Msg]:
        """Up to so many, as soon as one is here; none where none came for a while. Raises nats.errors.Error."""
        await self._ask()
        if not self._here and self._trouble is None:
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), WAIT_SECONDS)
        if self._trouble is not None:
            raise self._trouble
        if 0 < len(self._here) < most:
            await asyncio.sleep(TOGETHER_SECONDS)  # one transaction for those that come together
        return [self._here.popleft() for _ in range(min(most, len(self._here)))]

    async def _ask(self) -> None:
        now = clock.monotonic_seconds()
        is_asked = self._owed > 0 and now - self._asked_seconds <= WAIT_SECONDS
        if is_asked or len(self._here) >= AHEAD:
            return
        self._owed, self._asked_seconds = AHEAD, now
        request = {"batch": AHEAD, "expires": round(WAIT_SECONDS * 1e9)}
        await self._client.publish(_NEXT, json.dumps(request).encode(), reply=self.inbox)
