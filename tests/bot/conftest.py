"""A real database, the parts that write to it, and a bot that speaks to a Slack workspace on loopback.

The database is SQLite for all tests, and PostgreSQL too for those of the store.
"""

from datetime import timedelta

import pytest

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.ingest import Ingest
from bot.judge.candidate import CandidateRule
from bot.store.migrate import migrate
from bot.store.writer import Store
from demo.workspace import Workspace
from tests.bot.outward import Bot, sent
from tests.bot.remedy_bot import NODE
from tests.bot.slack_bot import SlackBot, at_work
from tests.nats_server import NatsServer

# Files whose tests run on both databases: whatever they say must hold on each.
ON_BOTH = frozenset(
    {
        "test_advance",
        "test_advance_many",
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


@pytest.fixture
async def workspace():
    async with Workspace(rate_limits=False) as workspace:
        yield workspace


@pytest.fixture
def home(workspace):
    """Where cards of runners go, and notices."""
    return workspace.channel("gpu-oncall")


@pytest.fixture
def candidates(workspace):
    """Where cards of free GPUs go."""
    return workspace.channel("gpu-candidates")


@pytest.fixture
async def bus(tmp_path):
    """With the rights of the node on which remedies are tried."""
    async with NatsServer(tmp_path / "nats", [NODE]) as server:
        yield server


@pytest.fixture
async def outbox_bot(store, fleet, advance, workspace):
    """Only posts, and not before the test starts it."""
    bot = Bot(store, fleet, advance, workspace)
    yield bot
    await bot.stop()


@pytest.fixture
async def bot(store, fleet, advance, workspace):
    """At work: it posts, and it hears people."""
    async with at_work(SlackBot(store, fleet, advance, workspace), workspace) as bot:
        yield bot


@pytest.fixture
async def stall(bot, home):
    """The card of a stalled runner."""
    await bot.found()
    await sent(bot)
    return home.cards[0]
