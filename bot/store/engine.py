"""How a database is opened: SQLite by its file, PostgreSQL by a URL in libpq's words."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

# A bot that stops in the middle of a transaction must not hold the lease's row for longer than its lease lasts.
IDLE_IN_TRANSACTION_SECONDS = 5
_LIMIT_EXCEEDED = "54"  # PostgreSQL's class of errors for what is larger than it takes
_CONNECTIONS = 8  # one writer, four readers, the lease, and some to spare
_POSTGRESQL = ("postgresql://", "postgres://")
# A server that is gone without a word is noticed within 10 s; the URL may say something else.
_KEEPALIVE = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "10000",
}


class LostLeaseError(SQLAlchemyError):
    """Another bot has begun: nothing is written. To whoever waits for the database it is one that takes nothing."""


def is_postgresql(url: str) -> bool:
    return url.startswith(_POSTGRESQL)


def can_be_read(url: str) -> bool:
    """Whether libpq understands a URL of PostgreSQL; what it says of one that it does not may show a password."""
    import psycopg  # half a second that a bot on SQLite spares
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return False
    return True


def make_engine(url: str, *, ends_idle: bool = False) -> Engine:
    """Connects to nothing yet.

    `ends_idle`: PostgreSQL ends a transaction whose bot stopped in the middle; not for who reads at leisure.
    """
    return _postgresql(url, ends_idle) if is_postgresql(url) else _sqlite(url)


def begin_for_writing(connection: Connection) -> None:
    """The next transaction takes SQLite's write lock at once; without this it is a snapshot to read from."""
    options = {"isolation_level": "READ COMMITTED"} if connection.dialect.name == "postgresql" else {}
    connection.execution_options(writes=True, **options)


def is_databases_own(error: Exception) -> bool:
    """Whether it is the database's own trouble (locked, full, away, no longer ours), not that of what it takes."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, LostLeaseError | PoolTimeoutError)
    is_too_large = str(getattr(error.orig, "sqlstate", None) or "").startswith(_LIMIT_EXCEEDED)
    trouble = isinstance(error, OperationalError | InternalError) or error.connection_invalidated
    return trouble and not is_too_large


def why(error: Exception) -> str:
    """One line for a log: what the database said."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return lines[0] if lines else type(error).__name__


# --- SQLite ---------------------------------------------------------------------------------------------------------


def _sqlite(url: str) -> Engine:
    engine = sa.create_engine(url)
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(raw: Any, _record: Any) -> None:
    raw.isolation_level = None  # the driver's own BEGIN is deferred: it would fail late, with SQLITE_BUSY
    # A chunk rewrites a hundred tracks: a log of 16 MiB instead of 4 copies each of them into the database less often.
    checkpoint = "wal_autocheckpoint=4000"
    for pragma in ("journal_mode=WAL", "synchronous=FULL", checkpoint, "foreign_keys=ON", "busy_timeout=5000"):
        raw.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # Take the write lock at once; readers stay plain, so that they see a snapshot and never wait.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


def _postgresql(url: str, ends_idle: bool) -> Engine:
    """Readers see a snapshot, as with SQLite; a connection that broke meanwhile is noticed before it is used."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    said = conninfo_to_dict(url)
    address = make_conninfo(url, **{name: value for name, value in _KEEPALIVE.items() if name not in said})

    def connect() -> Any:
        raw = psycopg.connect(address, autocommit=True, application_name="gpu-oncall")
        if ends_idle:
            raw.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_SECONDS}s'")
        raw.execute("SET TIME ZONE 'UTC'")
        raw.autocommit = False
        return raw

    return sa.create_engine(
        "postgresql+psycopg://",
        creator=connect,
        isolation_level="REPEATABLE READ",
        pool_size=_CONNECTIONS,
        pool_pre_ping=True,
    )
