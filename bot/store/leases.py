"""Which bot works: one row with its fence, a number that rises each time another one begins.

On PostgreSQL two bots share the row, and the one that works renews it. Whoever saw it unchanged for as long as it lasts
may take it over: no clock can jump there. On SQLite there is one bot per data folder (bot/lock.py): whoever begins
takes the row over, and the fence is the number of its start.
"""

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from bot.store.engine import IDLE_IN_TRANSACTION_SECONDS, LostLeaseError
from bot.store.schema import lease

_BOT = "bot"
_MICROSECONDS = 1_000_000
_MINE = lease.c.name == _BOT


class Lease(msgspec.Struct, frozen=True):
    """`holder` is the bot that began last, "" once it gave the lease back.

    `until` changes with every renewal; `is_kept`: it is not over by the database's clock, which is for people only.
    """

    fence: int
    holder: str
    until: int
    is_kept: bool


def read(connection: Connection) -> Lease:
    row = connection.execute(sa.select(lease.c.fence, lease.c.holder, lease.c.until).where(_MINE)).first()
    if row is None:
        return Lease(0, "", 0, is_kept=False)
    is_kept = not _is_shared(connection) or row.until > connection.execute(sa.select(_now())).scalar_one()
    return Lease(row.fence, row.holder, row.until, is_kept=is_kept and bool(row.holder))


def take(connection: Connection, holder: str, seconds: float, over: Lease | None = None) -> int | None:
    """The fence of a new lease; None while another bot holds it.

    `over` is one that was seen unchanged for as long as it lasts. On PostgreSQL this waits for transactions that the
    last holder has not ended, see `check`.
    """
    if _is_shared(connection):
        _end_stopped(connection)
    connection.execute(_first_row(connection))
    row = connection.execute(sa.select(lease).where(_MINE).with_for_update()).one()
    is_over = over is not None and (row.fence, row.until) == (over.fence, over.until)
    if _is_shared(connection) and row.holder and not is_over:
        return None
    until = _now() + round(seconds * _MICROSECONDS) if _is_shared(connection) else 0
    values = {"fence": row.fence + 1, "holder": holder, "until": until}
    connection.execute(sa.update(lease).where(_MINE).values(**values))
    return int(row.fence) + 1


def _end_stopped(connection: Connection) -> None:
    """Ends sessions of a bot that stopped while it held the row's lock.

    PostgreSQL does that by itself between two statements; not where a bot stopped in the middle of many that it sends
    without waiting. Asked again at the next try, as the wait for the lock is bounded too.
    """
    connection.execute(sa.text(f"SET LOCAL lock_timeout = '{IDLE_IN_TRANSACTION_SECONDS + 2}s'"))
    connection.execute(
        sa.text(
            "SELECT pg_terminate_backend(activity.pid) FROM pg_stat_activity AS activity JOIN pg_locks AS held "
            "ON held.pid = activity.pid AND held.granted AND held.relation = 'lease'::regclass "
            "AND held.mode IN ('RowShareLock', 'RowExclusiveLock') "
            "WHERE activity.datname = current_database() AND activity.application_name = 'gpu-oncall' "
            "AND activity.pid <> pg_backend_pid() "
            "AND activity.xact_start < clock_timestamp() - make_interval(secs => :seconds)"
        ),
        {"seconds": IDLE_IN_TRANSACTION_SECONDS},
    )


def renew(connection: Connection, fence: int, seconds: float) -> bool:
    """False: another bot has it, or it was given back. One that ran out and that nobody took is renewed."""
    if not _is_shared(connection):
        return fence_number(connection) == fence
    values = {"until": _now() + round(seconds * _MICROSECONDS)}
    return connection.execute(sa.update(lease).where(_MINE, lease.c.fence == fence).values(**values)).rowcount == 1


def release(connection: Connection, fence: int) -> None:
    """The next one may begin at once."""
    connection.execute(sa.update(lease).where(_MINE, lease.c.fence == fence).values(holder="", until=0))


def check(connection: Connection, fence: int) -> None:
    """First in every transaction that writes: raises LostLeaseError where a later bot has begun.

    On PostgreSQL the row is locked until the transaction ends, so that no other bot begins before that. The lock lets
    `renew` through, and it goes with the session of a bot that stopped in the middle: bot/store/engine.py.
    """
    query = sa.select(lease.c.fence).where(_MINE).with_for_update(read=True, key_share=True)
    present = connection.execute(query).scalar()
    if present != fence:
        raise LostLeaseError(f"another bot works now: this one's number is {fence}, and {present} has begun")


def fence_number(connection: Connection) -> int:
    """The number that every order carries: of the bot that works. In a transaction of the store it is this one."""
    return connection.execute(sa.select(lease.c.fence).where(_MINE)).scalar() or 0


def raise_fence(connection: Connection, at_least: int) -> int:
    """The next bot's number is higher than this; returns the present one. For a database that was brought back."""
    connection.execute(_first_row(connection))
    number = max(fence_number(connection), at_least)
    connection.execute(sa.update(lease).where(_MINE).values(fence=number, holder="", until=0))
    return number


def _first_row(connection: Connection) -> sa.Insert:
    """Does nothing where the row is there."""
    make = postgresql.insert if _is_shared(connection) else sqlite.insert
    return make(lease).values(name=_BOT, fence=0, holder="", until=0).on_conflict_do_nothing()


def _is_shared(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _now() -> sa.ColumnElement[int]:
    """The database's clock, in microseconds since 1970; in a transaction it goes on."""
    return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * _MICROSECONDS, sa.BigInteger)
