"""What nodes reported: every window as it came, positions, gaps, runs, hours, and what was rejected."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.judge.hours import Hour
from bot.judge.track import NodeTrack, Run
from bot.store.schema import (
    gpu_hour,
    gpu_run,
    microseconds,
    missing,
    node_track,
    node_window,
    rejected,
    stream_position,
)
from bot.store.upsert import insert_plain, upsert, upsert_plain
from wire.messages import Observation

_COMPRESSION_LEVEL = 1  # 3.3 KB of 8 GPUs become 0.5 KB in 26 µs; higher levels gain little
_HOUR_SUMS = tuple(name for name in Hour.__struct_fields__ if name != "at")
_decode_track = msgspec.msgpack.Decoder(NodeTrack).decode
_decode_observation = msgspec.json.Decoder(Observation).decode


# --- position in the stream -----------------------------------------------------------------------------------------


def position(connection: Connection, stream: str) -> tuple[datetime, int] | None:
    """When the stream was created and the last sequence number that is stored here; None before the first."""
    query = sa.select(stream_position.c.created_at, stream_position.c.seq).where(stream_position.c.stream == stream)
    found = connection.execute(query).first()
    return (found.created_at, found.seq) if found else None


def set_position(connection: Connection, stream: str, created_at: datetime, seq: int) -> None:
    row = {"stream": stream, "created_at": created_at, "seq": seq}
    upsert(connection, stream_position, [row], update=("created_at", "seq"))


# --- tracks ---------------------------------------------------------------------------------------------------------


def load_tracks(connection: Connection) -> dict[str, NodeTrack]:
    rows = connection.execute(sa.select(node_track.c.node, node_track.c.body).order_by(node_track.c.node))
    return {row.node: _decode_track(row.body) for row in rows}


def save_tracks(connection: Connection, tracks: Iterable[NodeTrack]) -> None:
    rows = [{"node": track.node, "body": msgspec.msgpack.encode(track)} for track in tracks]
    upsert_plain(connection, node_track, rows, update=("body",))


# --- windows --------------------------------------------------------------------------------------------------------


_IS_STORED = sa.select(sa.literal(1)).where(
    node_window.c.node == sa.bindparam("node"),
    node_window.c.spool_epoch == sa.bindparam("spool_epoch"),
    node_window.c.seq == sa.bindparam("seq"),
)


def is_stored(connection: Connection, observation: Observation) -> bool:
    key = {"node": observation.node, "spool_epoch": observation.spool_epoch, "seq": observation.seq}
    return connection.execute(_IS_STORED, key).scalar() is not None


_HIGHEST_SEQ = sa.select(sa.func.max(node_window.c.seq)).where(
    node_window.c.node == sa.bindparam("node"), node_window.c.spool_epoch == sa.bindparam("spool_epoch")
)


def highest_seq(connection: Connection, node: str, spool_epoch: str) -> int:
    """Of what is stored of this spool; 0 for nothing."""
    return connection.execute(_HIGHEST_SEQ, {"node": node, "spool_epoch": spool_epoch}).scalar() or 0


def window_row(observation: Observation, body: bytes, received_at: datetime) -> Mapping[str, Any]:
    """The row of one report, for `add_windows`."""
    return {
        "node": observation.node,
        "spool_epoch": observation.spool_epoch,
        "seq": observation.seq,
        "boot_id": observation.boot_id,
        "window_number": observation.window_number,
        "closed_at": microseconds(observation.closed_at),
        "received_at": microseconds(received_at),
        "body": zlib.compress(body, _COMPRESSION_LEVEL),
    }


def add_windows(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    insert_plain(connection, node_window, rows)


def newest_windows(connection: Connection, node: str, count: int) -> list[Observation]:
    """The node's latest reports by its wall-clock label, newest first."""
    return windows_around(connection, node, None, count)


def windows_around(connection: Connection, node: str, at: datetime | None, count: int) -> list[Observation]:
    """Up to `count` reports, newest first, that end with the one in which `at` lies (None: with the newest)."""
    mine = sa.select(node_window.c.body).where(node_window.c.node == node)
    newest_first = mine.order_by(node_window.c.closed_at.desc(), node_window.c.id.desc()).limit(count)
    if at is None:
        return _observations(connection, newest_first)
    closes_after = mine.where(node_window.c.closed_at > at).order_by(node_window.c.closed_at).limit(1)
    covering = [one for one in _observations(connection, closes_after) if one.started_at <= at]
    return [*covering, *_observations(connection, newest_first.where(node_window.c.closed_at <= at))][:count]


def windows_since(connection: Connection, since: datetime, node: str | None) -> Iterator[Observation]:
    """Every report that came since then, in the order of their coming; None: of all nodes."""
    query = sa.select(node_window.c.body).where(node_window.c.received_at >= since).order_by(node_window.c.id)
    if node is not None:
        query = query.where(node_window.c.node == node)
    for body in connection.execution_options(yield_per=200).execute(query).scalars():
        yield _decode_observation(zlib.decompress(body))


def _observations(connection: Connection, query: sa.Select[bytes]) -> list[Observation]:
    return [_decode_observation(zlib.decompress(body)) for body in connection.execute(query).scalars()]


# --- gaps, runs, hours ----------------------------------------------------------------------------------------------


def add_missing(connection: Connection, node: str, epoch: str, first_seq: int, last_seq: int, now: datetime) -> None:
    row = {"node": node, "spool_epoch": epoch, "first_seq": first_seq, "last_seq": last_seq, "noticed_at": now}
    connection.execute(sa.insert(missing).values(**row))


def add_runs(connection: Connection, runs: Sequence[tuple[str, str, Run]]) -> None:
    """Runs that have ended, as (node, GPU UUID, run)."""
    insert_plain(connection, gpu_run, [_run_row(*run) for run in runs])


def _run_row(node: str, gpu_uuid: str, run: Run) -> Mapping[str, Any]:
    return {
        "node": node,
        "gpu_uuid": gpu_uuid,
        "boot_id": run.boot_id,
        "verdict": run.verdict,
        "first_window": run.first,
        "last_window": run.last,
        "started_at": microseconds(run.started_at),
        "ended_at": microseconds(run.ended_at),
    }


def add_hours(connection: Connection, hours: Sequence[tuple[str, str, Hour]]) -> None:
    """Adds the seconds and energy of hours, as (node, GPU UUID, hour), to what the table holds of them."""
    sums: dict[tuple[str, str, datetime], Hour] = {}
    for node, uuid, hour in hours:
        before = sums.get((node, uuid, hour.at))
        sums[node, uuid, hour.at] = before.plus(hour) if before else hour
    rows = [
        {"node": node, "gpu_uuid": uuid, "hour": at, **{name: getattr(hour, name) for name in _HOUR_SUMS}}
        for (node, uuid, at), hour in sums.items()
    ]
    upsert(connection, gpu_hour, rows, add=_HOUR_SUMS)


# --- what could not be used -------------------------------------------------------------------------------------------


def reject(
    connection: Connection, subject: str, stream_seq: int | None, reason: str, body: bytes, now: datetime
) -> None:
    """Keeps bytes that could not be used, with the reason; they never block the stream."""
    row = {"subject": subject, "stream_seq": stream_seq, "reason": reason[:500], "body": body, "received_at": now}
    connection.execute(sa.insert(rejected).values(**row))
