"""What of Slack is in trouble, kept so that other processes and the next start know it."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.store.schema import trouble

SLACK = "slack"  # the whole of it


class KnownTrouble(msgspec.Struct, frozen=True):
    """`name` is what is in trouble; `times` how often it was met since."""

    name: str
    message: str
    since: datetime
    times: int


def of_row(row_id: int) -> str:
    """The name of one message's trouble; it ends with the row of the outbox."""
    return f"row {row_id}"


def all_troubles(connection: Connection) -> Sequence[KnownTrouble]:
    """The oldest first."""
    rows = connection.execute(sa.select(trouble).order_by(trouble.c.since, trouble.c.name)).all()
    return [KnownTrouble(row.name, row.message, row.since, row.times) for row in rows]


def is_met(connection: Connection, name: str) -> bool:
    return connection.execute(sa.select(trouble.c.name).where(trouble.c.name == name)).first() is not None


def note(connection: Connection, name: str, message: str, now: datetime) -> None:
    """A new trouble, or one that is met again: it keeps its beginning."""
    again = {"message": message, "times": trouble.c.times + 1}
    if not connection.execute(sa.update(trouble).where(trouble.c.name == name).values(**again)).rowcount:
        connection.execute(sa.insert(trouble).values(name=name, message=message, since=now, times=1))


def end(connection: Connection, name: str) -> None:
    connection.execute(sa.delete(trouble).where(trouble.c.name == name))
