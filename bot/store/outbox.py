"""Rows that wait to leave the bot: one per card (the latest state wins), one per thread line."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.store.schema import Instant, incident, outbox


class RowKind(StrEnum):
    CARD = "card"
    THREAD = "thread"


class RowState(StrEnum):
    """WAITING until its time; SENDING is committed before Slack is called; SHADOW rows are kept and never leave."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    DROPPED = "dropped"
    SHADOW = "shadow"


# As a constant in the SQL: the unique index of cards is a partial one, and a parameter would not use it.
_CARD: sa.ColumnElement[str] = sa.literal_column("'card'", sa.String)


class OutboxRow(msgspec.Struct, frozen=True):
    """`channel` and `ts` are None until the message is in Slack. A card is due again when wanted > sent revision."""

    id: int
    incident_id: int
    kind: RowKind
    state: RowState
    delivery_key: str
    wanted_revision: int
    sent_revision: int
    not_before: datetime
    line_key: str | None
    line_values: Mapping[str, str] | None
    channel: str | None
    ts: str | None
    attempts: int
    attempt_at: datetime | None
    sent_at: datetime | None
    last_error: str | None
    created_at: datetime


def want_card(
    connection: Connection,
    incident_id: int,
    revision: int,
    delivery_key: str,
    not_before: datetime,
    shadow: bool,
    now: datetime,
) -> None:
    """The incident's card must show `revision`: a new row, or the present one woken."""
    state = RowState.SHADOW if shadow else RowState.WAITING
    mine = (outbox.c.incident_id == incident_id) & (outbox.c.kind == _CARD)
    woken = sa.case((outbox.c.state == RowState.SENT, RowState.WAITING), else_=outbox.c.state)
    changed = connection.execute(
        sa.update(outbox).where(mine).values(wanted_revision=revision, state=woken, not_before=not_before)
    )
    if not changed.rowcount:
        _insert(
            connection,
            incident_id,
            RowKind.CARD,
            state,
            delivery_key,
            now,
            wanted_revision=revision,
            not_before=not_before,
        )


def add_line(
    connection: Connection,
    incident_id: int,
    key: str,
    values: Mapping[str, str],
    delivery_key: str,
    shadow: bool,
    now: datetime,
) -> None:
    """One more line for the thread of the incident's card."""
    state = RowState.SHADOW if shadow else RowState.WAITING
    line = {"line_key": key, "line_values": dict(values), "wanted_revision": 1, "not_before": now}
    _insert(connection, incident_id, RowKind.THREAD, state, delivery_key, now, **line)


def _insert(
    connection: Connection,
    incident_id: int,
    kind: RowKind,
    state: RowState,
    delivery_key: str,
    now: datetime,
    **values: object,
) -> None:
    row = {"incident_id": incident_id, "kind": kind, "state": state, "delivery_key": delivery_key, "created_at": now}
    connection.execute(sa.insert(outbox).values(**row, sent_revision=0, attempts=0, **values))


def due(connection: Connection, now: datetime, limit: int = 100) -> Sequence[OutboxRow]:
    """Rows whose time has come, oldest first; those found SENDING may be in Slack already, and nobody knows."""
    query = sa.select(outbox).where(_unfinished(), outbox.c.not_before <= now)
    return _rows(connection, query.order_by(outbox.c.not_before, outbox.c.id).limit(limit))


def next_due_at(connection: Connection) -> datetime | None:
    """When the next row becomes due; None when nothing waits."""
    return connection.execute(sa.select(sa.func.min(outbox.c.not_before)).where(_unfinished())).scalar()


def _unfinished() -> sa.ColumnElement[bool]:
    """Cards, and of each thread the first line that is not sent, once its card is in Slack or never will be."""
    card, earlier = outbox.alias(), outbox.alias()
    on_their_way = (RowState.WAITING, RowState.SENDING)
    has_card = sa.exists().where(
        card.c.incident_id == outbox.c.incident_id,
        card.c.kind == _CARD,
        card.c.ts.is_not(None) | (card.c.state == RowState.DROPPED),
    )
    is_behind = sa.exists().where(
        earlier.c.incident_id == outbox.c.incident_id,
        earlier.c.kind == RowKind.THREAD,
        earlier.c.id < outbox.c.id,
        earlier.c.state.in_(on_their_way),
    )
    return outbox.c.state.in_(on_their_way) & ((outbox.c.kind == _CARD) | (has_card & ~is_behind))


def row_of(connection: Connection, row_id: int) -> OutboxRow | None:
    return next(iter(_rows(connection, sa.select(outbox).where(outbox.c.id == row_id))), None)


def card_at(connection: Connection, channel: str, ts: str) -> OutboxRow | None:
    """The card that this message in Slack is; None when it is none of ours."""
    mine = (outbox.c.channel == channel) & (outbox.c.ts == ts) & (outbox.c.kind == _CARD)
    return next(iter(_rows(connection, sa.select(outbox).where(mine))), None)


def card_of(connection: Connection, incident_id: int) -> OutboxRow | None:
    mine = (outbox.c.incident_id == incident_id) & (outbox.c.kind == _CARD)
    return next(iter(_rows(connection, sa.select(outbox).where(mine))), None)


def mark_sending(connection: Connection, row_id: int, now: datetime) -> bool:
    """Commit this before Slack is called. False: the row is not waiting any more."""
    mine = (outbox.c.id == row_id) & (outbox.c.state == RowState.WAITING)
    values = {"state": RowState.SENDING, "attempt_at": now, "attempts": outbox.c.attempts + 1}
    return connection.execute(sa.update(outbox).where(mine).values(**values)).rowcount == 1


def mark_sent(
    connection: Connection, row_id: int, channel: str, ts: str, revision: int, now: datetime, next_not_before: datetime
) -> None:
    """Slack has `revision`. A card that changed meanwhile waits again, until `next_not_before`."""
    again = outbox.c.wanted_revision > revision
    values = {
        "state": sa.case((again, RowState.WAITING), else_=RowState.SENT),
        "not_before": sa.case((again, sa.literal(next_not_before, Instant)), else_=outbox.c.not_before),
        "channel": channel,
        "ts": ts,
        "sent_revision": revision,
        "sent_at": now,
        "last_error": None,
    }
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def mark_failed(connection: Connection, row_id: int, error: str, retry_at: datetime) -> None:
    """Slack does not have it; it waits until `retry_at`."""
    values = {"state": RowState.WAITING, "last_error": error[:500], "not_before": retry_at}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def end_shadow(connection: Connection, now: datetime) -> None:
    """The mode is no longer shadow: cards of incidents that are still open may be shown from now on."""
    still_open = sa.select(incident.c.id).where(incident.c.closed_at.is_(None))
    mine = (outbox.c.state == RowState.SHADOW) & (outbox.c.kind == _CARD) & outbox.c.incident_id.in_(still_open)
    connection.execute(sa.update(outbox).where(mine).values(state=RowState.WAITING, not_before=now))


def mark_unsure(connection: Connection, row_id: int, error: str, retry_at: datetime) -> None:
    """Slack may have it: the row stays SENDING, and is looked for at `retry_at`."""
    values = {"last_error": error[:500], "not_before": retry_at}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def mark_uneditable(connection: Connection, row_id: int, revision: int, error: str) -> None:
    """Slack keeps an older state of the card for good; its thread goes on."""
    values = {"state": RowState.SENT, "sent_revision": revision, "last_error": error[:500]}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def postpone(connection: Connection, row_id: int, until: datetime) -> None:
    """Nothing failed; it is only not the time."""
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(not_before=until))


def redraw(connection: Connection, incident_id: int, now: datetime) -> None:
    """A card that is in Slack is drawn again as it stands: somebody pressed a button of an older drawing."""
    mine = (outbox.c.incident_id == incident_id) & (outbox.c.kind == _CARD) & (outbox.c.state == RowState.SENT)
    connection.execute(sa.update(outbox).where(mine).values(state=RowState.WAITING, not_before=now))


def drop(connection: Connection, row_id: int, why: str) -> None:
    """It will never be sent, and the row says why."""
    values = {"state": RowState.DROPPED, "last_error": why[:500]}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def _rows(connection: Connection, query: sa.Select[tuple[object, ...]]) -> Sequence[OutboxRow]:
    rows = connection.execute(query).mappings()
    return [msgspec.convert({str(name): value for name, value in row.items()}, OutboxRow, strict=False) for row in rows]
