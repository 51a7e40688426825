"""Asks the parts how they are; whatever does not answer in time is told as that, and never waited for."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import NamedTuple

import nats.errors
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.fleet import Fleet
from bot.health import health
from bot.probes.activity import Activity
from bot.probes.vitals import Vitals
from bot.store import backlog, incidents
from bot.store.writer import Store
from wire import subjects
from wire.link import Link, NotConnectedError

log = logging.getLogger(__name__)

ASK_SECONDS = 2.0
SILENT_SECONDS = 180.0
_COUNTS = (
    "windows_stored",
    "windows_known_already",
    "windows_rejected",
    "windows_over_limit",
    "heartbeats_heard",
    "heartbeats_refused",
    "heartbeats_over_limit",
)


class Gatherer:
    """`works` is called where this bot begins to work; before that it waits for another one."""

    def __init__(self, store: Store, link: Link, *, has_slack: bool) -> None:
        self._store = store
        self._link = link
        self._has_slack = has_slack
        self._fleet: Fleet | None = None
        self._fence: int | None = None
        self.activity = Activity()

    def works(self, fleet: Fleet, fence: int | None = None) -> None:
        self._fleet, self._fence = fleet, fence
        self.activity = Activity()

    def waits(self) -> None:
        """For another bot that works."""
        self._fleet = self._fence = None

    async def vitals(self, *, of_nodes: bool = True) -> Vitals:
        """Without what is counted over all nodes and GPUs, where `of_nodes` is not wanted."""
        of_database, stream = await asyncio.gather(self._of_database(), self._of_stream())
        rows, fleet, did = of_database or _Rows(), self._fleet, self.activity
        counts = _counted(fleet) if fleet and of_nodes else _Counted()
        pending = stream.pending if stream else None
        return Vitals(
            is_bus_connected=self._link.is_connected,
            is_database_answering=of_database is not None,
            waits=fleet is None,
            has_slack=self._has_slack,
            fence=self._fence,
            read_age_seconds=did.seconds_since(did.read_seconds),
            judged_age_seconds=did.seconds_since(did.judged_seconds),
            pending=pending,
            oldest_pending_seconds=None if pending is None else self._oldest_pending_seconds(pending),
            stream_bytes=stream.size_bytes if stream else None,
            stream_max_bytes=stream.max_bytes if stream else None,
            reds=rows.reds,
            outbox_waiting=rows.waiting,
            outbox_oldest_seconds=_age_seconds(rows.oldest),
            open_incidents=rows.open_incidents,
            nodes=counts.nodes,
            gpus=counts.gpus,
            clock_skew_max_seconds=counts.skew_seconds,
            counts={name: count for name, count in asdict(did).items() if name in _COUNTS},
        )

    async def _of_database(self) -> "_Rows | None":
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await self._store.read(_rows)
        except (SQLAlchemyError, TimeoutError):
            return None

    async def _of_stream(self) -> "_Stream | None":
        if not self._link.is_connected:
            return None
        try:
            async with asyncio.timeout(ASK_SECONDS):
                jetstream = self._link.jetstream()
                consumer = await jetstream.consumer_info(subjects.STREAM, subjects.CONSUMER)
                stream = await jetstream.stream_info(subjects.STREAM)
        except (nats.errors.Error, NotConnectedError, TimeoutError, OSError):
            return None
        waiting = (consumer.num_pending or 0) + (consumer.num_ack_pending or 0)
        return _Stream(waiting, stream.state.bytes, stream.config.max_bytes)

    def _oldest_pending_seconds(self, pending: int) -> float:
        """At most: it came after the newest that was taken, or, before one was, the bot was away as long as it runs."""
        if pending == 0:
            return 0.0
        newest = self.activity.newest_taken_at
        return _age_seconds(newest) if newest else self.activity.seconds_since(None)


class _Rows(NamedTuple):
    reds: tuple[str, ...] = ()
    waiting: int = 0
    oldest: datetime | None = None
    open_incidents: Mapping[str, int] = {}


class _Stream(NamedTuple):
    pending: int
    size_bytes: int
    max_bytes: int | None


def _rows(connection: Connection) -> _Rows:
    now = clock.now()
    waits = backlog.backlog(connection, now)
    reds = tuple(red.name for red in health(connection, now).reds)
    return _Rows(reds, waits.waiting, waits.oldest, incidents.open_by_kind(connection))


class _Counted(NamedTuple):
    nodes: Mapping[str, int] = {}
    gpus: Mapping[str, int] = {}
    skew_seconds: float = 0.0


def _counted(fleet: Fleet) -> _Counted:
    states, verdicts, skew_seconds = Counter(heard=0, silent=0), Counter(candidate=0, held=0, unknown=0), 0.0
    for node in fleet.nodes():
        seen = fleet.seen(node)
        if seen and seen.age_seconds <= SILENT_SECONDS:
            states["heard"] += 1
            verdicts.update([gpu.verdict.value for gpu in seen.heartbeat.gpus])
        else:
            states["silent"] += 1
        skew_seconds = max(skew_seconds, fleet.clock_skew_seconds(node))
    return _Counted(states, verdicts, skew_seconds)


def _age_seconds(since: datetime | None) -> float:
    return 0.0 if since is None else max(0.0, (clock.now() - since).total_seconds())
