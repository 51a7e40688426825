"""What of the outbox has not reached people: for the second path, for the catch-up, and for the bot's health."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.store.outbox import CARD, OutboxRow, RowKind, RowState, Told, add_notice, rows_of
from bot.store.schema import Instant, incident, outbox

CATCH_UP = "notice.catch_up"
MOMENT = timedelta(milliseconds=20)


def unheard(connection: Connection, urgency: int, before: datetime) -> Sequence[OutboxRow]:
    """Cards of this urgency, or more urgent, that people should have seen before then and that are not in Slack.

    Their opening was not told by the second path yet; or it was, and they are over.
    """
    is_over = incident.c.closed_at.is_not(None)
    opened = outbox.c.ts.is_(None) & (incident.c.urgency <= urgency) & ~is_over & outbox.c.told_elsewhere.is_(None)
    closed = is_over & (outbox.c.told_elsewhere == Told.OPENED)
    on_their_way = outbox.c.state.in_((RowState.WAITING, RowState.SENDING))
    query = sa.select(outbox).join(incident, outbox.c.incident_id == incident.c.id)
    query = query.where(on_their_way, outbox.c.kind == CARD, opened | closed)
    return rows_of(connection, query.where(outbox.c.wanted_at <= before).order_by(outbox.c.id))


def mark_told(connection: Connection, row_id: int, told: Told) -> None:
    connection.execute(sa.update(outbox).where(outbox.c.id == row_id).values(told_elsewhere=told))


class SinceThen(msgspec.Struct, frozen=True):
    """What happened since an instant: problems that began, that are over, and that are open now."""

    began: int
    over: int
    still_open: int


def since_then(connection: Connection, since: datetime) -> SinceThen:
    counts = [incident.c.opened_at >= since, incident.c.closed_at >= since, incident.c.closed_at.is_(None)]
    one_of = [sa.select(sa.func.count()).select_from(incident).where(which) for which in counts]
    return SinceThen(*(connection.execute(query).scalar_one() for query in one_of))


def want_catch_up(connection: Connection, channel: str, since: datetime, delivery_key: str, now: datetime) -> None:
    """Slack was away since then: one notice is wanted, and lines of threads from that time are never replayed."""
    lines = (outbox.c.kind == RowKind.THREAD) & (outbox.c.created_at >= since)
    lines &= outbox.c.state == RowState.WAITING
    dropped = {"state": RowState.DROPPED, "last_error": "Slack was away: the card shows the present state"}
    connection.execute(sa.update(outbox).where(lines).values(**dropped))
    unsent = outbox.c.state.in_((RowState.WAITING, RowState.SENDING))
    waits = sa.select(outbox.c.id).where(outbox.c.kind == RowKind.NOTICE, outbox.c.line_key == CATCH_UP, unsent)
    if connection.execute(waits).first() is None:
        # The first message that was refused is from before the refusal, and its incident from before the message.
        oldest = connection.execute(sa.select(sa.func.min(outbox.c.wanted_at)).where(unsent)).scalar() or since
        values = {"since": (min(since, oldest) - MOMENT).isoformat()}
        add_notice(connection, channel, CATCH_UP, values, delivery_key, now)


def wake(connection: Connection, now: datetime, longest: timedelta) -> None:
    """What would wait for longer is due now: it waits for a time of a clock that was set back since."""
    waits = outbox.c.state.in_((RowState.WAITING, RowState.SENDING)) & (outbox.c.not_before > now + longest)
    wanted_at = sa.case((outbox.c.wanted_at > now, sa.literal(now, Instant)), else_=outbox.c.wanted_at)
    connection.execute(sa.update(outbox).where(waits).values(not_before=now, wanted_at=wanted_at))


class Backlog(msgspec.Struct, frozen=True):
    """Messages that should be in Slack and are not, since when, and open cards that nobody can see or edit."""

    waiting: int
    oldest: datetime | None
    deleted: int
    frozen: int


def backlog(connection: Connection, now: datetime) -> Backlog:
    late = outbox.c.state.in_((RowState.WAITING, RowState.SENDING)) & (outbox.c.wanted_at <= now)
    waiting, oldest = connection.execute(sa.select(sa.func.count(), sa.func.min(outbox.c.wanted_at)).where(late)).one()
    open_cards = sa.select(sa.func.count()).select_from(outbox.join(incident, outbox.c.incident_id == incident.c.id))
    open_cards = open_cards.where(outbox.c.kind == CARD, incident.c.closed_at.is_(None))
    deleted = open_cards.where(outbox.c.state == RowState.DROPPED, outbox.c.ts.is_not(None))
    return Backlog(
        waiting,
        oldest,
        connection.execute(deleted).scalar_one(),
        connection.execute(open_cards.where(outbox.c.is_frozen)).scalar_one(),
    )
