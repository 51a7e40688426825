"""Sends what the spool holds, one report at a time and in order, and the heartbeats beside it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import timedelta

from agent.spool import Row, Spool, SpoolError
from wire import subjects
from wire.acks import Ack, Failure, FailureKind
from wire.link import Link, pause_seconds
from wire.messages import Heartbeat, encode

log = logging.getLogger(__name__)

ACK_DEADLINE = timedelta(seconds=15)  # a disk that syncs in 10 ms takes a fleet's 10,000 reports in 106 s
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=60)


class Sender:
    """Takes the oldest report, waits for its acknowledgement, deletes it, and so on; a failure is told once."""

    def __init__(
        self,
        spool: Spool,
        link: Link,
        node: str,
        ack_deadline: timedelta = ACK_DEADLINE,
        first_pause: timedelta = FIRST_PAUSE,
    ) -> None:
        self._spool, self._link, self._node = spool, link, node
        self._ack_deadline, self._first_pause = ack_deadline, first_pause
        self._tried: tuple[str, int] | None = None
        self._failing: str | None = None

    async def run(self) -> None:
        attempt = 0
        while True:
            await self._link.wait_connected()
            try:
                was_sent = await self._send(await self._next_row())
            except SpoolError as error:
                was_sent = self._failed("spool", str(error))
            if was_sent:
                attempt = 0
                continue
            await asyncio.sleep(pause_seconds(attempt, self._first_pause, LONGEST_PAUSE))
            attempt += 1

    async def _next_row(self) -> Row:
        while True:
            self._spool.appended.clear()
            row = await self._spool.oldest()
            if row is not None:
                return row
            await self._spool.appended.wait()

    async def _send(self, row: Row) -> bool:
        is_first_attempt = row.is_new and self._tried != (row.epoch, row.seq)
        self._tried = (row.epoch, row.seq)
        message_id = subjects.message_id(self._node, row.epoch, row.seq)
        subject = subjects.observations(self._node)
        answer = await self._link.publish_acked(subject, row.body, message_id, self._ack_deadline)
        if isinstance(answer, Failure):
            return await self._not_acked(row, answer)
        if answer.duplicate and is_first_attempt:
            self._alarm(row, answer)
        await self._spool.delete(row)
        self._works()
        return True

    async def _not_acked(self, row: Row, failure: Failure) -> bool:
        if failure.kind is FailureKind.TOO_LARGE:  # it would block all later ones for ever
            log.error("report dropped, the bus does not take it seq=%d error=%s", row.seq, failure.detail)
            await self._spool.delete(row)
            return True
        if failure.kind is FailureKind.NOT_CONNECTED:  # the link has told it
            return False
        return self._failed(failure.kind, failure.detail)

    def _alarm(self, row: Row, ack: Ack) -> None:
        log.error(
            "the bus already had a report with the id of one that was never sent: is this node's key or state folder "
            "used on another host as well? node=%s seq=%d stream_seq=%d",
            self._node,
            row.seq,
            ack.seq,
        )

    def _failed(self, kind: str, detail: str) -> bool:
        if kind != self._failing:
            log.error("reports wait in the spool and are tried again kind=%s error=%s", kind, detail)
        self._failing = kind
        return False

    def _works(self) -> None:
        if self._failing is not None:
            log.info("reports are sent again kind=%s", self._failing)
        self._failing = None


async def send_heartbeats(
    link: Link, node: str, build: Callable[[], Heartbeat], every: timedelta, wake: asyncio.Event
) -> None:
    """One at once, then every `every`, and whenever `wake` is set: a verdict, a window, a new connection."""
    while True:
        await link.wait_connected()
        wake.clear()
        was_sent = await link.publish_core(subjects.heartbeat(node), encode(build()))
        wait = every if was_sent else FIRST_PAUSE
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait.total_seconds()):  # wait_for can swallow a cancellation in Python 3.11
                await wake.wait()
