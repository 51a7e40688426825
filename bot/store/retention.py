"""What is too old to be kept: so the database stays as large as its fleet and its retention make it, and no larger."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from bot.store import claims
from bot.store.outbox import RowState
from bot.store.schema import (
    button,
    click,
    gpu_hour,
    gpu_run,
    incident,
    missing,
    node_window,
    outbox,
    rejected,
    remedy,
)

_PART = 500
_OVER = (RowState.SENT, RowState.DROPPED, RowState.SHADOW)


def forget_old(connection: Connection, windows_before: datetime, hours_before: datetime, most: int) -> int:
    """Deletes what is older, at most `most` windows at once; returns the number of rows. The audit stays for ever."""
    old = sa.select(node_window.c.id).where(node_window.c.received_at < windows_before).limit(most)
    notices = outbox.c.incident_id.is_(None) & outbox.c.state.in_(_OVER) & (outbox.c.created_at < windows_before)
    statements = (
        sa.delete(node_window).where(node_window.c.id.in_(old)),
        sa.delete(rejected).where(rejected.c.received_at < windows_before),
        sa.delete(missing).where(missing.c.noticed_at < windows_before),
        sa.delete(outbox).where(notices),
        sa.delete(gpu_run).where(gpu_run.c.ended_at < hours_before),
        sa.delete(gpu_hour).where(gpu_hour.c.hour < hours_before),
        sa.delete(click).where(click.c.at < hours_before),
    )
    gone = sum(connection.execute(statement).rowcount for statement in statements)
    return gone + claims.forget_old(connection, hours_before) + _forget_incidents(connection, hours_before)


def _forget_incidents(connection: Connection, before: datetime) -> int:
    """Closed ones with all that belongs to them; a group stays as long as one of its members does."""
    member = incident.alias()
    is_needed = sa.exists().where(
        member.c.shown_on == incident.c.id, member.c.closed_at.is_(None) | (member.c.closed_at >= before)
    )
    old = list(connection.execute(sa.select(incident.c.id).where(incident.c.closed_at < before, ~is_needed)).scalars())
    # What points to one of them goes first: members to their group as well.
    for part in _parts(old):
        connection.execute(sa.update(incident).where(incident.c.id.in_(part)).values(shown_on=None))
        for table in (button, outbox, remedy):
            connection.execute(sa.delete(table).where(table.c.incident_id.in_(part)))
    for part in _parts(old):
        connection.execute(sa.delete(incident).where(incident.c.id.in_(part)))
    return len(old)


def _parts(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """A statement takes so many values only."""
    return (numbers[begin : begin + _PART] for begin in range(0, len(numbers), _PART))
