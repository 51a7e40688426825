"""What a report reads: hours summed by hour of the week, and the incidents of a span of time."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.incident import Incident, Kind
from bot.report.usage import SlotRow
from bot.store.outbox import CARD, RowState
from bot.store.schema import gpu_hour, incident, node_window, outbox

MOST_INCIDENTS = 20_000
_HOUR = timedelta(hours=1)
_SUMS = (
    "candidate_seconds",
    "held_seconds",
    "unknown_seconds",
    "held_idle_seconds",
    "idle_joules",
    "idle_read_seconds",
    "held_idle_joules",
    "held_idle_read_seconds",
)
_decode = msgspec.json.Decoder(Incident).decode


def slots(connection: Connection, since: datetime, until: datetime, zone: tzinfo) -> Iterator[SlotRow]:
    """Every GPU's sums by hour of the week in the zone: one statement for each slot, which few groups make fast."""
    sums = [sa.func.sum(gpu_hour.c[name]) for name in _SUMS]
    query = sa.select(gpu_hour.c.node, gpu_hour.c.gpu_uuid, *sums).group_by(gpu_hour.c.node, gpu_hour.c.gpu_uuid)
    for slot, hours in hours_by_slot(since, until, zone).items():
        for node, uuid, *values in connection.execute(query.where(gpu_hour.c.hour.in_(hours))):
            yield SlotRow(node, uuid, slot, tuple(values))


def hours_by_slot(since: datetime, until: datetime, zone: tzinfo) -> dict[int, list[datetime]]:
    """The hours of the span by hour of the week on the zone's clock, also where that clock is put back or forward."""
    found: dict[int, list[datetime]] = {}
    at = since.replace(minute=0, second=0, microsecond=0)
    while at < until:
        there = at.astimezone(zone)
        found.setdefault(there.weekday() * 24 + there.hour, []).append(at)
        at += _HOUR
    return found


def incidents_of(
    connection: Connection, since: datetime, until: datetime, kinds: Sequence[Kind]
) -> tuple[list[Incident], int]:
    """Of these kinds, what was open at any time in the span, oldest first; and how many rows could not be read."""
    was_open = incident.c.closed_at.is_(None) | (incident.c.closed_at >= since)
    query = sa.select(incident.c.body).where(incident.c.kind.in_(kinds), was_open, incident.c.opened_at < until)
    bodies = connection.execute(query.order_by(incident.c.id.desc()).limit(MOST_INCIDENTS)).scalars()
    found, unreadable = [], 0
    for body in bodies:
        try:
            found.append(_decode(body))
        except msgspec.DecodeError:
            unreadable += 1
    return found[::-1], unreadable


def said(connection: Connection, incident_ids: Sequence[int]) -> set[int]:
    """Those of the incidents whose card people could read: by a card of their own, or on a group's."""
    found: set[int] = set()
    for begin in range(0, len(incident_ids), 500):
        some = incident_ids[begin : begin + 500]
        query = sa.select(outbox.c.incident_id).where(outbox.c.kind == CARD, outbox.c.incident_id.in_(some))
        reached = outbox.c.ts.is_not(None) | (outbox.c.state == RowState.SENT)
        found.update(one for one in connection.execute(query.where(reached)).scalars() if one is not None)
    return found


def has_hours_before(connection: Connection, at: datetime) -> bool:
    """Whether anything was recorded before then: a report about nothing helps nobody."""
    hours = connection.execute(sa.select(gpu_hour.c.hour).where(gpu_hour.c.hour < at).limit(1)).first()
    windows = connection.execute(sa.select(node_window.c.id).where(node_window.c.received_at < at).limit(1)).first()
    return hours is not None or windows is not None
