"""Rows that wait to leave the bot: one per card (the latest state wins), one per thread line."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.store import troubles
from bot.store.schema import Instant, incident, outbox


class RowKind(StrEnum):
    CARD = "card"
    THREAD = "thread"
    NOTICE = "notice"  # of the bot itself, in a channel, about no incident


class RowState(StrEnum):
    """WAITING until its time; SENDING is committed before Slack is called; SHADOW rows are kept and never leave."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    DROPPED = "dropped"
    SHADOW = "shadow"


class Told(StrEnum):
    """What people heard of an incident by the second path."""

    OPENED = "opened"
    CLOSED = "closed"


# As a constant in the SQL: the unique index of cards is a partial one, and a parameter would not use it.
CARD: sa.ColumnElement[str] = sa.literal_column("'card'", sa.String)


class OutboxRow(msgspec.Struct, frozen=True):
    """`channel` and `ts` are None until the message is in Slack. A card is due again when wanted > sent revision.

    `wanted_at` is when people should have seen what is not in Slack yet; `late_seconds` how late the post was.
    `is_frozen`: Slack lets nobody edit it, so that changes go into its thread. `incident_id` is None for a notice.
    """

    id: int
    incident_id: int | None
    kind: RowKind
    state: RowState
    delivery_key: str
    wanted_revision: int
    sent_revision: int
    not_before: datetime
    wanted_at: datetime
    late_seconds: int
    possibly_twice: bool
    is_frozen: bool
    was_reposted: bool
    told_elsewhere: Told | None
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
    mine = (outbox.c.incident_id == incident_id) & (outbox.c.kind == CARD)
    is_sent = outbox.c.state == RowState.SENT
    values = {
        "wanted_revision": revision,
        "state": sa.case((is_sent, RowState.WAITING), else_=outbox.c.state),
        "not_before": not_before,
        "wanted_at": sa.case((is_sent, sa.literal(not_before, Instant)), else_=outbox.c.wanted_at),
    }
    changed = connection.execute(sa.update(outbox).where(mine).values(**values))
    if not changed.rowcount:
        _insert(
            connection,
            incident_id,
            RowKind.CARD,
            state,
            delivery_key,
            now,
            not_before,
            wanted_revision=revision,
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
    line = {"line_key": key, "line_values": dict(values), "wanted_revision": 1}
    _insert(connection, incident_id, RowKind.THREAD, state, delivery_key, now, now, **line)


def add_notice(
    connection: Connection, channel: str, key: str, values: Mapping[str, str], delivery_key: str, now: datetime
) -> None:
    """A message of the bot about itself, for a channel."""
    line = {"line_key": key, "line_values": dict(values), "wanted_revision": 1, "channel": channel}
    _insert(connection, None, RowKind.NOTICE, RowState.WAITING, delivery_key, now, now, **line)


def want_notice(
    connection: Connection, channel: str, key: str, values: Mapping[str, str], delivery_key: str, now: datetime
) -> None:
    """A message that may change later: a new row, or the one with this delivery key woken with what it says now."""
    mine = (outbox.c.delivery_key == delivery_key) & (outbox.c.state != RowState.DROPPED)
    changed = {"line_key": key, "line_values": dict(values), "wanted_revision": outbox.c.wanted_revision + 1}
    is_sent = outbox.c.state == RowState.SENT
    changed |= {
        "state": sa.case((is_sent, RowState.WAITING), else_=outbox.c.state),
        "not_before": now,
        "wanted_at": sa.case((is_sent, sa.literal(now, Instant)), else_=outbox.c.wanted_at),
    }
    if not connection.execute(sa.update(outbox).where(mine).values(**changed)).rowcount:
        add_notice(connection, channel, key, values, delivery_key, now)


def is_wanted(connection: Connection, delivery_key: str) -> bool:
    """Whether there is a row with this key, in whatever state."""
    mine = sa.select(outbox.c.id).where(outbox.c.delivery_key == delivery_key)
    return connection.execute(mine).first() is not None


def _insert(
    connection: Connection,
    incident_id: int | None,
    kind: RowKind,
    state: RowState,
    delivery_key: str,
    now: datetime,
    not_before: datetime,
    **values: object,
) -> None:
    row = {"incident_id": incident_id, "kind": kind, "state": state, "delivery_key": delivery_key, "created_at": now}
    begins = {"sent_revision": 0, "attempts": 0, "late_seconds": 0}
    begins |= {"possibly_twice": False, "is_frozen": False, "was_reposted": False}
    times = {"not_before": not_before, "wanted_at": not_before}
    connection.execute(sa.insert(outbox).values(**row, **begins, **times, **values))


def due(
    connection: Connection, now: datetime, *, posts: bool = True, edits: bool = True, limit: int = 100
) -> Sequence[OutboxRow]:
    """Rows whose time has come, notices and the most urgent first; those found SENDING may be in Slack already.

    `posts` and `edits`: whether new messages and edits may leave at present.
    """
    query = sa.select(outbox).join(incident, outbox.c.incident_id == incident.c.id, isouter=True)
    query = query.where(_unfinished(), outbox.c.not_before <= now, _allowed(posts, edits))
    rank = sa.func.coalesce(incident.c.urgency, -1)
    return rows_of(connection, query.order_by(rank, outbox.c.not_before, outbox.c.id).limit(limit))


def next_due_at(connection: Connection, *, posts: bool = True, edits: bool = True) -> datetime | None:
    """When the next of these rows becomes due; None when nothing waits."""
    query = sa.select(sa.func.min(outbox.c.not_before)).where(_unfinished(), _allowed(posts, edits))
    return connection.execute(query).scalar()


def _allowed(posts: bool, edits: bool) -> sa.ColumnElement[bool]:
    is_edit = outbox.c.ts.is_not(None) & ~outbox.c.is_frozen
    if posts and edits:
        return sa.true()
    return is_edit if edits else ~is_edit if posts else sa.false()


def _unfinished() -> sa.ColumnElement[bool]:
    """Cards, and of each thread the first line that is not sent, once its card is in Slack or never will be."""
    card, earlier = outbox.alias(), outbox.alias()
    on_their_way = (RowState.WAITING, RowState.SENDING)
    has_card = sa.exists().where(
        card.c.incident_id == outbox.c.incident_id,
        card.c.kind == CARD,
        card.c.ts.is_not(None) | (card.c.state == RowState.DROPPED),
    )
    is_behind = sa.exists().where(
        earlier.c.incident_id == outbox.c.incident_id,
        earlier.c.kind == RowKind.THREAD,
        earlier.c.id < outbox.c.id,
        earlier.c.state.in_(on_their_way),
    )
    is_free = outbox.c.kind.in_((RowKind.CARD, RowKind.NOTICE))
    return outbox.c.state.in_(on_their_way) & (is_free | (has_card & ~is_behind))


def row_of(connection: Connection, row_id: int) -> OutboxRow | None:
    return next(iter(rows_of(connection, sa.select(outbox).where(outbox.c.id == row_id))), None)


def card_at(connection: Connection, channel: str, ts: str) -> OutboxRow | None:
    """The card that this message in Slack is; None when it is none of ours."""
    mine = (outbox.c.channel == channel) & (outbox.c.ts == ts) & (outbox.c.kind == CARD)
    return next(iter(rows_of(connection, sa.select(outbox).where(mine))), None)


def is_known(connection: Connection, delivery_key: str) -> bool:
    """Whether a message in Slack with this key is one of the outbox."""
    return connection.execute(sa.select(outbox.c.id).where(outbox.c.delivery_key == delivery_key)).first() is not None


def card_of(connection: Connection, incident_id: int) -> OutboxRow | None:
    mine = (outbox.c.incident_id == incident_id) & (outbox.c.kind == CARD)
    return next(iter(rows_of(connection, sa.select(outbox).where(mine))), None)


def mark_sending(connection: Connection, row: OutboxRow, now: datetime) -> bool:
    """Commit this before Slack is called. False: the row is not waiting any more.

    It is known by its key, too: SQLite gives the number of a card that was withdrawn to the next row.
    """
    mine = (outbox.c.id == row.id) & (outbox.c.delivery_key == row.delivery_key)
    mine &= outbox.c.state == RowState.WAITING
    values = {"state": RowState.SENDING, "attempt_at": now, "attempts": outbox.c.attempts + 1}
    return connection.execute(sa.update(outbox).where(mine).values(**values)).rowcount == 1


class Delivered(msgspec.Struct, frozen=True):
    """What Slack has now. A card that changed meanwhile waits again, until `again_at`."""

    channel: str
    ts: str
    revision: int
    late_seconds: int
    again_at: datetime


def mark_sent(connection: Connection, row_id: int, delivered: Delivered, now: datetime) -> None:
    """Slack has it. How late the message was posted stays with it."""
    again = outbox.c.wanted_revision > delivered.revision
    again_at = sa.literal(delivered.again_at, Instant)
    values = {
        "state": sa.case((again, RowState.WAITING), else_=RowState.SENT),
        "not_before": sa.case((again, again_at), else_=outbox.c.not_before),
        "wanted_at": sa.case((again, again_at), else_=outbox.c.wanted_at),
        "late_seconds": sa.case((outbox.c.ts.is_(None), delivered.late_seconds), else_=outbox.c.late_seconds),
        "channel": delivered.channel,
        "ts": delivered.ts,
        "sent_revision": delivered.revision,
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
    mine = (outbox.c.state == RowState.SHADOW) & (outbox.c.kind == CARD) & outbox.c.incident_id.in_(still_open)
    connection.execute(sa.update(outbox).where(mine).values(state=RowState.WAITING, not_before=now, wanted_at=now))


def mark_unsure(connection: Connection, row_id: int, error: str, retry_at: datetime) -> None:
    """Slack may have it: the row stays SENDING, and is looked for at `retry_at`."""
    values = {"last_error": error[:500], "not_before": retry_at}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def freeze(connection: Connection, row_id: int, error: str, now: datetime) -> None:
    """Slack keeps an older state of the card for good: the present one, and later ones, go into its thread."""
    values = {"state": RowState.WAITING, "is_frozen": True, "last_error": error[:500], "not_before": now}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def post_anew(connection: Connection, row_id: int, delivery_key: str, error: str, now: datetime) -> None:
    """Somebody deleted the card of an incident that must be seen: it is posted once more, and not a third time."""
    gone = {"ts": None, "is_frozen": False, "last_error": error[:500]}
    anew = {"state": RowState.WAITING, "was_reposted": True, "delivery_key": delivery_key, "not_before": now}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**gone, **anew))


def move(connection: Connection, row_id: int, channel: str, error: str, now: datetime) -> None:
    """The card is posted in another channel: nothing can be said in its own."""
    values = {"state": RowState.WAITING, "channel": channel, "last_error": error[:500], "not_before": now}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))


def mark_possibly_twice(connection: Connection, row_id: int) -> None:
    """It is posted again although the first attempt may be there; every later state of the card says so."""
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(possibly_twice=True))


def postpone(connection: Connection, row_id: int, until: datetime) -> None:
    """It is not the time: nothing is late."""
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(not_before=until, wanted_at=until))


def hold_back(connection: Connection, row_id: int, until: datetime) -> None:
    """Slack, or a channel of it, is not to be asked before that; the row grows late."""
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(not_before=until))


def redraw(connection: Connection, incident_id: int, now: datetime) -> None:
    """A card that is in Slack is drawn again as it stands: somebody pressed a button of an older drawing."""
    mine = (outbox.c.incident_id == incident_id) & (outbox.c.kind == CARD) & (outbox.c.state == RowState.SENT)
    connection.execute(sa.update(outbox).where(mine).values(state=RowState.WAITING, not_before=now, wanted_at=now))


def drop(connection: Connection, row_id: int, why: str) -> None:
    """It will never be sent, and the row says why."""
    values = {"state": RowState.DROPPED, "last_error": why[:500]}
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(**values))
    troubles.end(connection, troubles.of_row(row_id))


def rows_of(connection: Connection, query: sa.Select[tuple[object, ...]]) -> Sequence[OutboxRow]:
    rows = connection.execute(query).mappings()
    return [msgspec.convert({str(name): value for name, value in row.items()}, OutboxRow, strict=False) for row in rows]


def withdraw(connection: Connection, incident_id: int) -> bool:
    """Takes back a card that Slack does not have. False: people may have it, or heard of it elsewhere."""
    card = card_of(connection, incident_id)
    if card is None or _may_be_known(card):
        return False
    connection.execute(sa.delete(outbox).where(outbox.c.id == card.id))
    troubles.end(connection, troubles.of_row(card.id))
    return True


def _may_be_known(card: OutboxRow) -> bool:
    is_on_its_way = card.state not in (RowState.WAITING, RowState.SHADOW)
    was_there = card.ts is not None or card.was_reposted or card.possibly_twice
    return is_on_its_way or was_there or card.told_elsewhere is not None
