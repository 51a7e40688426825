"""Brings a database to the present schema."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from bot.store.engine import begin_for_writing

_ONE_AT_A_TIME = 0x67707530  # any number that nothing else in this database locks
_FOLDER = Path(__file__).parent / "migrations"


class NewerDatabaseError(Exception):
    """The database was written by a newer version of gpu-oncall."""


def migrate(engine: Engine) -> None:
    """Upgrades to the newest schema in one transaction; raises NewerDatabaseError for a newer one."""
    with engine.connect() as connection:
        begin_for_writing(connection)
        with connection.begin():
            upgrade(connection)


def upgrade(connection: sa.Connection, to: str = "head") -> None:
    """The same in the connection's transaction."""
    if connection.dialect.name == "postgresql":  # two bots may start at once; SQLite is locked already
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))
        # A busy machine may need longer to load the migrations than a bot at work may do nothing.
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = '60s'")
    _refuse_newer(connection)
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER))
    command.upgrade(config, to)


def is_ours(connection: sa.Connection) -> bool:
    """Whether it ever had a schema of gpu-oncall."""
    return MigrationContext.configure(connection).get_current_revision() is not None


def is_present(connection: sa.Connection) -> bool:
    """Whether it is at the newest schema already; raises NewerDatabaseError."""
    _refuse_newer(connection)
    newest = ScriptDirectory(str(_FOLDER)).get_current_head()
    return MigrationContext.configure(connection).get_current_revision() == newest


def _refuse_newer(connection: sa.Connection) -> None:
    present = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory(str(_FOLDER)).walk_revisions()}
    if present is not None and present not in known:
        raise NewerDatabaseError(
            f"the database is at schema {present}, which this version does not know: "
            "install the version that wrote it, or restore a backup"
        )
