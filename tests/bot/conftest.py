"""A real database and the parts that write to it."""

from datetime import timedelta

import pytest

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.ingest import Ingest
from bot.judge.candidate import CandidateRule
from bot.store.migrate import migrate
from bot.store.writer import Store


@pytest.fixture
def store(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/bot.db")
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
