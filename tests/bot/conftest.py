"""A real database and the parts that write to it: SQLite for all tests, PostgreSQL too for those of the store."""

from datetime import timedelta

import pytest

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.ingest import Ingest
from bot.judge.candidate import CandidateRule
from bot.store.migrate import migrate
from bot.store.writer import Store

# Files whose tests run on both databases: whatever they say must hold on each.
ON_BOTH = frozenset(
    {
        "test_advance",
        "test_advance_unseen",
        "test_backup",
        "test_claims",
        "test_ingest",
        "test_ingest_fuzz",
        "test_lease",
        "test_migrate",
        "test_outbox",
        "test_remedy_audit",
        "test_remedy_store",
        "test_report",
        "test_retention",
        "test_runners",
        "test_slack_lost_lease",
    }
)


def pytest_generate_tests(metafunc):
    if "database_url" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2] in ON_BOTH:
        metafunc.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


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
