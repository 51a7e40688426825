"""A real browser for the tests of the page."""

import pytest_asyncio

from tests.demo.browser import browser, require_chromium


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium():
    """One for all tests of a file: a start takes a second."""
    async with browser(require_chromium()) as started:
        yield started
