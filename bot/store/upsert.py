"""Insert or update in one statement, in the words of SQLite and PostgreSQL alike; and many rows with little effort."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

Rows = Sequence[Mapping[str, Any]]


def upsert(
    connection: Connection, table: sa.Table, rows: Rows, *, update: tuple[str, ...] = (), add: tuple[str, ...] = ()
) -> None:
    """Inserts rows; where the primary key is there, columns of `update` are replaced and those of `add` summed."""
    if rows:
        connection.execute(_upsert(connection.dialect.name, table, update, add), rows)


def upsert_plain(connection: Connection, table: sa.Table, rows: Rows, *, update: tuple[str, ...] = ()) -> None:
    """`upsert` for the busiest tables: every row names the same columns, with values as the driver takes them."""
    if rows:
        _execute_plain(connection, _upsert(connection.dialect.name, table, update, ()), rows)


def insert_plain(connection: Connection, table: sa.Table, rows: Rows) -> None:
    """Like `upsert_plain`; a row that is there already is an error."""
    if rows:
        _execute_plain(connection, _insert(table), rows)


@lru_cache(maxsize=64)
def _insert(table: sa.Table) -> Insert:
    return sa.insert(table)


@lru_cache(maxsize=64)
def _upsert(dialect_name: str, table: sa.Table, update: tuple[str, ...], add: tuple[str, ...]) -> Insert:
    make = postgresql.insert if dialect_name == "postgresql" else sqlite.insert
    statement = make(table)
    changes: dict[str, sa.ColumnElement[Any]] = {name: statement.excluded[name] for name in update}
    changes |= {name: table.c[name] + statement.excluded[name] for name in add}
    keys = [column.name for column in table.primary_key]
    return statement.on_conflict_do_update(index_elements=keys, set_=changes)


def _execute_plain(connection: Connection, statement: Insert, rows: Rows) -> None:
    """SQLAlchemy writes the statement, once; to look at every value of every row takes it longer than SQLite."""
    text, positions = _written(connection.dialect, statement, tuple(rows[0]))
    plain = rows if positions is None else list(map(itemgetter(*positions), rows))
    connection.exec_driver_sql(text, plain)


@lru_cache(maxsize=64)
def _written(dialect: Dialect, statement: Insert, columns: tuple[str, ...]) -> tuple[str, Sequence[str] | None]:
    """The statement's text, and the order of its values; None where the driver takes them by name."""
    compiled = statement.compile(dialect=dialect, column_keys=list(columns))
    return str(compiled), compiled.positiontup
