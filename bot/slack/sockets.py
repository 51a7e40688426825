"""Two Socket Mode connections in one process, so that the loss of one loses no click."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from sqlalchemy.exc import SQLAlchemyError

from bot.notify import CONNECTIONS_OPEN, DeliveryError, asked
from bot.slack.envelopes import EnvelopeHandler

log = logging.getLogger(__name__)

Note = Callable[[str, str | None], Awaitable[None]]

NAME = "slack sockets"
SOCKETS = 2
LOOK_EVERY_SECONDS = 1.0
CONNECT_SECONDS = 20.0
GIVEN_UP_SECONDS = 30.0  # the SDK's own reconnecting takes one or two of its 10 s; then we begin anew
LONGEST_PAUSE_SECONDS = 30.0

# The SDK's own log repeats itself every 10 s while Slack is away, and has connection URLs with tickets in it.
_sdk_log = logging.getLogger(f"{__name__}.sdk")
_sdk_log.setLevel(logging.CRITICAL)


class Sockets:
    """Keeps the connections up until it is cancelled; starting it never waits for Slack.

    `note` is told why nothing can arrive, and None when something can again.
    """

    def __init__(self, app: AsyncApp, app_token: str, note: Note | None = None) -> None:
        self._app = app
        self._app_token = app_token
        self._note = note
        self._noted: str | None = None
        self._connected = [False] * SOCKETS
        self._last_reason = ""

    @property
    def connected(self) -> int:
        return sum(self._connected)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(SOCKETS):
                group.create_task(self._keep(number), name=f"slack socket {number + 1}")

    async def _keep(self, number: int) -> None:
        failures = 0
        while True:
            was_up = await self._one_life(number)
            failures = 0 if was_up else failures + 1
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(LONGEST_PAUSE_SECONDS, 2.0 ** min(failures, 8)))

    async def _one_life(self, number: int) -> bool:
        """One connection from its beginning until it is given up; whether it ever stood."""
        handler = EnvelopeHandler(self._app, self._app_token, logger=_sdk_log)
        handler.client.proxy = self._app.client.proxy
        reason, was_up = "the connection was lost", False
        try:
            await self._connect(handler)
            was_up = True
            await self._watch(number, handler)
        except DeliveryError as error:
            reason = str(error)
        except TimeoutError:
            reason = f"no connection within {CONNECT_SECONDS:.0f} s"
        except asyncio.CancelledError:
            reason = ""
            raise
        except Exception as error:  # one connection that fails in a new way must not end the bot
            log.exception("A connection to Slack failed for a reason that nobody foresaw")
            reason = type(error).__name__
        finally:
            self._set(number, False, reason)
            await _close(handler)
        await self._tell()
        return was_up

    async def _connect(self, handler: AsyncSocketModeHandler) -> None:
        """Asks for the address itself: the SDK would retry for ever without a word why."""
        client = handler.client
        answer = await asked(
            CONNECTIONS_OPEN, lambda: client.web_client.apps_connections_open(app_token=self._app_token)
        )
        client.wss_uri = str(answer["url"])
        async with asyncio.timeout(CONNECT_SECONDS):
            await handler.connect_async()  # type: ignore[no-untyped-call]

    async def _watch(self, number: int, handler: AsyncSocketModeHandler) -> None:
        lost_for = 0.0
        while lost_for < GIVEN_UP_SECONDS:
            is_up = await handler.client.is_connected()
            self._set(number, is_up, "the connection was lost")
            await self._tell()
            lost_for = 0.0 if is_up else lost_for + LOOK_EVERY_SECONDS
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _tell(self) -> None:
        why = None if self.connected else self._last_reason or None
        if self._note is None or why == self._noted:
            return
        self._noted = why
        try:
            await self._note(NAME, why)
        except SQLAlchemyError as error:  # the database's own trouble is said elsewhere
            log.warning("It could not be written down that clicks cannot arrive; error=%s", error)

    def _set(self, number: int, is_up: bool, reason: str) -> None:
        """Says once when the last connection is gone (not for an empty reason: we are stopping) and once it is back."""
        before = self.connected
        self._connected[number] = is_up
        if is_up and before == 0:
            self._last_reason = ""
            log.info("Clicks and commands arrive from Slack; sockets=%d of %d", self.connected, SOCKETS)
        elif not is_up and self.connected == 0 and reason not in ("", self._last_reason):
            self._last_reason = reason
            log.warning("No click or command can arrive from Slack, trying on; reason=%s", reason)


async def _close(handler: AsyncSocketModeHandler) -> None:
    """Closes for good and waits for the SDK's tasks, so that none of them goes on connecting."""
    client = handler.client
    tasks = [client.message_processor, client.current_session_monitor, client.message_receiver]
    with contextlib.suppress(Exception):  # a broken connection may refuse to be closed
        async with asyncio.timeout(5):
            await handler.close_async()  # type: ignore[no-untyped-call]
    if not client.aiohttp_client_session.closed:
        await client.aiohttp_client_session.close()
    await _ended([task for task in tasks if task is not None])


async def _ended(tasks: Sequence["asyncio.Future[object]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
