"""The bus's side of the bot: fetches observations for ingest in order, and hears heartbeats."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime

import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.advance import Advance
from bot.broker.pull import FETCH, pulling
from bot.broker.stream import StreamState, ensure_stream, reset_consumer
from bot.fleet import Fleet
from bot.incident import Said
from bot.ingest import Arrived, Ingest
from bot.limits import HEARTBEATS, WINDOWS, Budget
from bot.probes.activity import Activity
from bot.store import windows
from bot.store.engine import why
from bot.store.writer import Store
from wire import subjects
from wire.link import Link, NotConnectedError
from wire.messages import BadMessageError, decode_heartbeat

log = logging.getLogger(__name__)

CHUNK = 100  # about 40 ms of the writer thread: a click waits no longer than that behind ingest
PAUSE_SECONDS = 1.0
LOOK_EVERY_SECONDS = 1.0
HELD_UP_SECONDS = 20.0

_BUS_TROUBLE = (nats.errors.Error, NotConnectedError, TimeoutError, OSError)


class Listener:
    """Takes the stream from where the database is, again after every trouble, for ever."""

    def __init__(
        self,
        link: Link,
        store: Store,
        ingest: Ingest,
        fleet: Fleet,
        advance: Advance,
        stream_max_bytes: int,
        replicas: int | None = None,
        activity: Activity | None = None,
    ) -> None:
        self._link = link
        self._store = store
        self._ingest = ingest
        self._fleet = fleet
        self._advance = advance
        self._stream_max_bytes = stream_max_bytes
        self._replicas = replicas
        self._activity = activity or Activity()
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._refused: set[str] = set()
        self._windows, self._beats = Budget(WINDOWS), Budget(HEARTBEATS)
        self._trouble = ""

    async def run(self) -> None:
        await self._link.subscribe(subjects.HEARTBEATS, self._on_heartbeat)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._note_listening())
            tasks.create_task(self._judge_heard())
            tasks.create_task(self._observations())

    async def _note_listening(self) -> None:
        """The bus may be away, or this process held up: what was silent meanwhile is not a node's silence."""
        before = clock.monotonic_seconds()
        while True:
            now = clock.monotonic_seconds()
            if not self._link.is_connected or now - before > HELD_UP_SECONDS:
                self._fleet.listens(False)
            self._fleet.listens(self._link.is_connected)
            before = now
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    # --- observations -----------------------------------------------------------------------------------------------

    async def _observations(self) -> None:
        while True:
            if not self._link.is_connected:
                self._fleet.stream_behind(Said("backlog.bus"))
            await self._link.wait_connected()
            try:
                await self._session()
            except _BUS_TROUBLE as error:
                self._tell("stream cannot be read, trying on", "backlog.stream", error)
            except SQLAlchemyError as error:
                self._tell("database does not take observations, they wait in the stream", "backlog.database", error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _session(self) -> None:
        """From one connection or trouble to the next. What came and was not stored comes again, in its place."""
        self._store.check()  # the stream's consumer belongs to the bot that works
        jetstream = self._link.jetstream()
        state = await ensure_stream(jetstream, self._stream_max_bytes, replicas=self._replicas)
        await reset_consumer(jetstream, await self._next_seq(state))
        async with pulling(jetstream) as pull:
            while self._link.is_connected and self._store.is_held():
                messages = await pull.take()
                await self._take_all(messages, state.created)
                self._activity.read()
                self._fleet.stream_behind(Said("backlog.more") if len(messages) >= FETCH else None)

    async def _next_seq(self, state: StreamState) -> int:
        stored = await self._store.read(lambda connection: windows.position(connection, subjects.STREAM))
        if stored is None:
            return 1
        created_at, seq = stored
        if created_at == state.created and seq <= state.last_seq:
            return seq + 1
        # Numbers begin anew in a new stream; what is known already is recognised by node, epoch and seq.
        log.warning("stream was lost, reading it from its beginning created=%s", state.created.isoformat())
        return 1

    async def _take_all(self, messages: Sequence[Msg], created_at: datetime) -> None:
        for begin in range(0, len(messages), CHUNK):
            await self._take(messages[begin : begin + CHUNK], created_at)
        if self._trouble:
            log.info("observations are read again")
            self._trouble = ""

    async def _take(self, messages: Sequence[Msg], created_at: datetime) -> None:
        messages = [message for message in messages if await self._within_limit(message)]
        if not messages:
            return
        chunk = [Arrived(message.subject, message.metadata.sequence.stream, message.data) for message in messages]
        taken = await self._ingest.take(subjects.STREAM, created_at, chunk)
        self._activity.took(taken.stored, taken.duplicates, len(taken.rejected), messages[-1].metadata.timestamp)
        for message, arrived in zip(messages, chunk, strict=True):
            if arrived.stream_seq in taken.rejected:
                await message.term()
            else:
                await message.ack()

    async def _within_limit(self, message: Msg) -> bool:
        """A message over its node's limit is gone: its window counts as missing, and frees nothing."""
        if self._windows.take(message.subject, clock.monotonic_seconds()):
            return True
        self._activity.windows_over_limit += 1
        if self._windows.first_over(message.subject):
            log.error("node sends more windows than its limit, the rest is dropped subject=%s", message.subject)
        await message.term()
        return False

    def _tell(self, what: str, key: str, error: Exception) -> None:
        """The log gets all of it, people a sentence with the kind of the error."""
        trouble = f"{what} error={why(error)}"
        if trouble != self._trouble:
            log.error(trouble)
        self._trouble = trouble
        self._fleet.stream_behind(Said(key, texts={"error": type(error).__name__}))

    # --- heartbeats -------------------------------------------------------------------------------------------------

    async def _on_heartbeat(self, message: Msg) -> None:
        """Only the latest counts. The reply subject came from a node: nothing is ever sent to it."""
        if not self._beats.take(message.subject, clock.monotonic_seconds()):
            self._activity.heartbeats_over_limit += 1
            if self._beats.first_over(message.subject):
                log.error("node sends more heartbeats than its limit, the rest is dropped subject=%s", message.subject)
            return
        if message.subject == subjects.heartbeat(subjects.PROBE):
            return  # gpu-oncall bus check
        try:
            heartbeat = decode_heartbeat(message.subject, message.data)
        except BadMessageError as error:
            self._refuse(message.subject, error)
            return
        self._fleet.heard(heartbeat)
        self._activity.heartbeats_heard += 1
        self._refused.discard(message.subject)
        if heartbeat.node not in self._queued:
            self._queued.add(heartbeat.node)
            self._heard.put_nowait(heartbeat.node)

    def _refuse(self, subject: str, error: BadMessageError) -> None:
        self._activity.heartbeats_refused += 1
        if subject not in self._refused:
            log.error("heartbeat cannot be used subject=%s error=%s", subject, error)
        self._refused.add(subject)

    async def _judge_heard(self) -> None:
        while True:
            node = await self._heard.get()
            self._queued.discard(node)
            try:
                await self._advance.refresh(node)
            except SQLAlchemyError as error:
                self._tell("database does not take what heartbeats say", "backlog.database", error)
