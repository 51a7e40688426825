"""One chunk of observations in one transaction: decode, store, judge, advance, and move the stream position."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance
from bot.fleet import Fleet
from bot.judge.hours import Hour, alone, hour_of
from bot.judge.track import NodeTrack, Run, observed
from bot.store import windows
from bot.store.engine import is_databases_own
from bot.store.writer import Store, Transaction
from wire.messages import BadMessageError, Observation, decode_observation

log = logging.getLogger(__name__)


class Arrived(msgspec.Struct, frozen=True):
    """One message of the stream as it came."""

    subject: str
    stream_seq: int
    body: bytes


class Taken(msgspec.Struct, frozen=True):
    """What a chunk came to. `rejected` are the stream's numbers of messages that cannot be used."""

    stored: int
    duplicates: int
    rejected: tuple[int, ...] = ()


class Ingest:
    """Takes chunks of the stream, in order, into the database and the fleet."""

    def __init__(self, store: Store, fleet: Fleet, advance: Advance) -> None:
        self._store = store
        self._fleet = fleet
        self._advance = advance

    async def take(self, stream: str, created_at: datetime, chunk: Sequence[Arrived]) -> Taken:
        """Stores and judges a chunk; raises when the database cannot take it, with nothing of it written.

        A message that makes the chunk fail by itself is found by taking the chunk apart, and rejected.
        """
        try:
            return await self._store.write(lambda transaction: self._chunk(transaction, stream, created_at, chunk))
        except Exception as error:
            if is_databases_own(error):
                raise  # the messages are not to blame
            if len(chunk) > 1:
                return _sum([await self.take(stream, created_at, [arrived]) for arrived in chunk])
            log.exception(
                "observation cannot be stored subject=%s stream_seq=%d", chunk[0].subject, chunk[0].stream_seq
            )
            return await self._reject(stream, created_at, chunk[0], f"could not be stored: {type(error).__name__}")

    async def _reject(self, stream: str, created_at: datetime, arrived: Arrived, reason: str) -> Taken:
        def work(transaction: Transaction) -> None:
            _reject(transaction, arrived, reason)
            windows.set_position(transaction.connection, stream, created_at, arrived.stream_seq)

        await self._store.write(work)
        return Taken(0, 0, (arrived.stream_seq,))

    def _chunk(self, transaction: Transaction, stream: str, created_at: datetime, chunk: Sequence[Arrived]) -> Taken:
        batch = _Batch(transaction, self._fleet)
        for arrived in chunk:
            batch.add(arrived)
        batch.write()
        windows.set_position(transaction.connection, stream, created_at, chunk[-1].stream_seq)
        tracks = batch.tracks  # a callback that held the batch would be a cycle: all its rows left to the collector
        transaction.on_commit(lambda: self._fleet.tracks.update(tracks))
        for node, track in tracks.items():
            self._advance.judge_in(transaction, node, track)
        return Taken(len(batch.rows), batch.duplicates, tuple(batch.rejected))


class _Batch:
    """The rows and tracks of one chunk, gathered before they are written together."""

    def __init__(self, transaction: Transaction, fleet: Fleet) -> None:
        self._transaction = transaction
        self._fleet = fleet
        self._now = clock.now()
        self._seen: set[tuple[str, str, int]] = set()
        self._runs: list[tuple[str, str, Run]] = []
        self._hours: list[tuple[str, str, Hour]] = []
        self.rows: list[Mapping[str, Any]] = []
        self.tracks: dict[str, NodeTrack] = {}
        self.rejected: list[int] = []
        self.duplicates = 0

    def add(self, arrived: Arrived) -> None:
        try:
            observation = decode_observation(arrived.subject, arrived.body)
        except BadMessageError as error:
            _reject(self._transaction, arrived, str(error))
            self.rejected.append(arrived.stream_seq)
            return
        before = self.tracks.get(observation.node) or self._fleet.tracks.get(observation.node)
        if self._is_duplicate(before, observation):
            self.duplicates += 1
            return
        self._add_new(before, observation, arrived.body)

    def _is_duplicate(self, before: NodeTrack | None, observation: Observation) -> bool:
        key = (observation.node, observation.spool_epoch, observation.seq)
        if key in self._seen:
            return True
        self._seen.add(key)
        # The usual case, the next one of the same spool, needs no look into the table.
        if before and before.spool_epoch == observation.spool_epoch and observation.seq > before.last_seq:
            return False
        return windows.is_stored(self._transaction.connection, observation)

    def _add_new(self, before: NodeTrack | None, observation: Observation, body: bytes) -> None:
        self._note_gap(before, observation)
        track = self._with_last_seq(before, observed(before, observation))
        self.tracks[observation.node] = track
        self.rows.append(windows.window_row(observation, body, self._now))
        if before:
            self._note_ended(before, track, observation)

    def _with_last_seq(self, before: NodeTrack | None, track: NodeTrack) -> NodeTrack:
        """Its last number is the highest of its spool, also where a spool comes back: two hosts with one key, an old
        disk put back. A lower one would take what is stored for new.
        """
        if before is None or track.spool_epoch == before.spool_epoch:
            highest = before.last_seq if before else 0
        else:
            key = (track.node, track.spool_epoch)
            here = (seq for node, epoch, seq in self._seen if (node, epoch) == key)
            highest = max(windows.highest_seq(self._transaction.connection, *key), *here)
        return track if track.last_seq >= highest else replace(track, last_seq=highest)

    def _note_ended(self, before: NodeTrack, after: NodeTrack, observation: Observation) -> None:
        """Runs and hours live in the track until they end; a late window's hour has ended already."""
        for uuid, gpu in before.gpus.items():
            now = after.gpus.get(uuid)
            if gpu.run and not (now and _is_continued(gpu.run, now.run)):
                self._runs.append((after.node, uuid, gpu.run))
            if gpu.hour and not (now and now.hour and now.hour.at == gpu.hour.at):
                self._hours.append((after.node, uuid, gpu.hour))
        hour = hour_of(observation)
        for window in observation.gpus:
            known = before.gpus.get(window.uuid)
            if known and known.hour and hour < known.hour.at:
                self._hours.append((after.node, window.uuid, alone(window, observation, hour)))

    def _note_gap(self, before: NodeTrack | None, observation: Observation) -> None:
        same = before is not None and before.spool_epoch == observation.spool_epoch
        expected = before.last_seq + 1 if before and same else 1
        if observation.seq > expected and (same or observation.seq > 1):
            windows.add_missing(
                self._transaction.connection,
                observation.node,
                observation.spool_epoch,
                expected,
                observation.seq - 1,
                self._now,
            )

    def write(self) -> None:
        connection = self._transaction.connection
        windows.add_windows(connection, self.rows)
        windows.add_runs(connection, self._runs)
        windows.save_tracks(connection, self.tracks.values())
        windows.add_hours(connection, self._hours)


def _is_continued(run: Run, now: Run | None) -> bool:
    return now is not None and now.first == run.first and now.boot_id == run.boot_id


def _reject(transaction: Transaction, arrived: Arrived, reason: str) -> None:
    windows.reject(transaction.connection, arrived.subject, arrived.stream_seq, reason, arrived.body, clock.now())


def _sum(parts: Sequence[Taken]) -> Taken:
    rejected = tuple(number for part in parts for number in part.rejected)
    return Taken(sum(part.stored for part in parts), sum(part.duplicates for part in parts), rejected)
