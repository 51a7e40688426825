"""A workspace, an app that listens to it, and a real browser for the tests of the page."""

from datetime import timedelta

import pytest
import pytest_asyncio

from demo.workspace import Workspace
from tests.demo.browser import browser, require_chromium
from tests.demo.build_workspace import AdjustableClock, client_of
from tests.demo.listening_app import listening_app


@pytest.fixture
def clock():
    return AdjustableClock()


@pytest.fixture
async def workspace(clock):
    async with Workspace(now=clock, rate_limits=False, ack_within=timedelta(seconds=20)) as workspace:
        yield workspace


@pytest.fixture
async def app(workspace):
    async with listening_app(workspace) as app:
        yield app


@pytest.fixture
def client(workspace):
    return client_of(workspace)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium():
    """One for all tests of a file: a start takes a second."""
    async with browser(require_chromium()) as started:
        yield started
