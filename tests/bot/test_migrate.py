"""The migrations make exactly the tables that the code works with."""

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from bot.store.engine import make_engine
from bot.store.migrate import NewerDatabaseError, migrate
from bot.store.schema import METADATA


@pytest.fixture
def engine(database_url):
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


def test_migrations_give_the_schema_that_the_code_knows(engine):
    migrate(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_migrating_twice_changes_nothing(engine):
    migrate(engine)
    migrate(engine)
    assert "node_window" in sa.inspect(engine).get_table_names()


def test_a_database_of_a_newer_version_is_refused_and_left_alone(engine):
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerDatabaseError, match="9999"):
        migrate(engine)


def test_a_machine_that_is_too_busy_to_load_the_migrations_at_once_is_given_time(postgres_url):
    """Nobody waits for this transaction's lease; the limit of all others is the lease's."""
    engine, limits = make_engine(postgres_url, ends_idle=True), []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def look(_connection, cursor, *_):
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        limits.extend(cursor.fetchone())

    migrate(engine)
    assert limits[-1] == "1min"
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
    assert limits[-1] == "5s"
    engine.dispose()
