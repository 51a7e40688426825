"""Every row of one database into another one, of whichever kind: for backups, which are SQLite files, and back."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from bot.store import leases
from bot.store.engine import begin_for_writing, make_engine
from bot.store.migrate import is_present, migrate
from bot.store.outbox import RowState
from bot.store.schema import METADATA, lease, node_window, outbox
from wire.files import new_private_file

_ROWS = 500


class NotPresentError(Exception):
    """The database is not at this version's schema."""


# --- out ------------------------------------------------------------------------------------------------------------


def back_up(engine: Engine, file: Path) -> None:
    """Writes a new file; of a database in use it is one moment. Raises NotPresentError, SQLAlchemyError and OSError."""
    with new_private_file(file) as draft:
        if engine.dialect.name == "sqlite":
            _back_up_sqlite(engine, draft)
        else:
            _back_up_rows(engine, draft)


def _back_up_sqlite(engine: Engine, file: Path) -> None:
    """SQLite's own way, while others read and write."""
    with engine.connect() as source, contextlib.closing(sqlite3.connect(file)) as target:
        raw = source.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        try:
            raw.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")  # one file, without companions
        except sqlite3.Error as error:
            raise SQLAlchemyError(str(error)) from error


def _back_up_rows(engine: Engine, file: Path) -> None:
    target_engine = make_engine(f"sqlite:///{file}")
    try:
        migrate(target_engine)
        with engine.connect() as source, target_engine.connect() as target:
            _require_present(source)
            begin_for_writing(target)
            with target.begin():
                _copy(source, target)
        with target_engine.connect() as target:
            target.exec_driver_sql("COMMIT")
            target.exec_driver_sql("PRAGMA journal_mode=DELETE")
            target.exec_driver_sql("BEGIN")
    finally:
        target_engine.dispose()


# --- and back -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def backup_opened(file: Path) -> Iterator[Connection]:
    """For reading only: the file stays as it is. Raises NotPresentError and SQLAlchemyError."""
    engine = sa.create_engine(f"sqlite:///file:{file}?mode=ro&uri=true")
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def is_empty(connection: Connection) -> bool:
    """Whether nothing was ever recorded there."""
    return all(connection.execute(sa.select(table).limit(1)).first() is None for table in _tables())


def bring_back(source: Connection, target: Connection) -> None:
    """All rows of a backup in place of those that are there; `after_restore` belongs into the same transaction."""
    _require_present(source)
    fence = leases.fence_number(source)
    if target.dialect.name == "postgresql":
        target.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    for table in reversed(_tables()):
        target.execute(sa.delete(table))
    _copy(source, target)
    leases.raise_fence(target, max(fence, leases.fence_number(target)))


def after_restore(connection: Connection, now: datetime) -> int:
    """What must hold before a bot works on a database of an earlier time; returns the new fence.

    Whatever waits for its first post may be in Slack since: it is looked for there first. The fence rises above every
    one that a bot may have had since, which is less than one a second.
    """
    unposted = (outbox.c.state == RowState.WAITING) & (outbox.c.ts.is_(None) | outbox.c.is_frozen)
    since = sa.func.coalesce(outbox.c.attempt_at, outbox.c.created_at)
    connection.execute(sa.update(outbox).where(unposted).values(state=RowState.SENDING, attempt_at=since))
    return leases.raise_fence(connection, int(now.timestamp()))


def last_written(connection: Connection) -> datetime | None:
    """The newest moment that the record knows; None for an empty one."""
    newest = (sa.select(sa.func.max(column)) for column in (node_window.c.received_at, outbox.c.created_at))
    return max((at for query in newest if (at := connection.execute(query).scalar())), default=None)


# --- rows -----------------------------------------------------------------------------------------------------------


def _require_present(connection: Connection) -> None:
    if not is_present(connection):
        raise NotPresentError("it was written by an earlier version")


def _tables() -> Sequence[sa.Table]:
    """In an order in which no row names one that is not there yet. The lease stays with its database."""
    return [table for table in METADATA.sorted_tables if table is not lease]


def _copy(source: Connection, target: Connection) -> None:
    for table in _tables():
        query = sa.select(table).order_by(*_parents_first(table), *table.primary_key)
        rows = source.execution_options(yield_per=_ROWS).execute(query).mappings()
        for part in rows.partitions(_ROWS):
            target.execute(sa.insert(table), [_plain(row) for row in part])
        _continue_numbers(target, table)


def _parents_first(table: sa.Table) -> Iterator[sa.ColumnElement[bool]]:
    """Rows that point to another row of the same table come after those that do not."""
    for key in table.foreign_keys:
        if key.column.table is table:
            yield sa.case((key.parent.is_(None), 0), else_=1)


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _continue_numbers(target: Connection, table: sa.Table) -> None:
    """PostgreSQL counts on from what it gave itself, not from what it was given."""
    numbered = table.autoincrement_column
    if target.dialect.name != "postgresql" or numbered is None:
        return
    newest = target.execute(sa.select(sa.func.max(numbered))).scalar()
    if newest is not None:
        sequence = sa.func.pg_get_serial_sequence(table.name, numbered.name)
        target.execute(sa.select(sa.func.setval(sequence, newest)))
