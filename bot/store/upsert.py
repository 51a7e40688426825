"""Insert or update in one statement, in the words of SQLite and PostgreSQL alike."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite


def upsert(
    connection: Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    update: Sequence[str] = (),
    add: Sequence[str] = (),
) -> None:
    """Inserts rows; where the primary key is there, columns of `update` are replaced and those of `add` summed."""
    if not rows:
        return
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(table)
    changes: dict[str, sa.ColumnElement[Any]] = {name: statement.excluded[name] for name in update}
    changes |= {name: table.c[name] + statement.excluded[name] for name in add}
    keys = [column.name for column in table.primary_key]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes), rows)
