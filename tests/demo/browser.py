"""A real headless Chromium for the tests of the page and for its pictures, driven by Playwright."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from playwright.async_api import Browser, Page, async_playwright

from bot import clock
from demo.workspace import Workspace

NAMES = ("chromium", "chromium-browser", "google-chrome")
NO_CHROMIUM = (
    "NO CHROMIUM: the demo's page is NOT TESTED in a browser here; install it (Debian: apt install chromium), "
    "or name one in CHROMIUM"
)
PATIENCE_MS = 20_000


def patient_workspace() -> Workspace:
    """Its time passes ten times slower and it waits long for acknowledgements: a busy machine must fail no test."""
    began = clock.now()
    return Workspace(
        rate_limits=False, now=lambda: began + (clock.now() - began) / 10, ack_within=timedelta(seconds=30)
    )


def chromium_path() -> str | None:
    """None: there is none on this machine."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def require_chromium() -> str:
    """Skips the test with a reason that nobody overlooks."""
    path = chromium_path()
    if path is None:
        pytest.skip(NO_CHROMIUM)
    return path


@asynccontextmanager
async def browser(path: str) -> AsyncIterator[Browser]:
    # Without a sandbox: containers of CI seldom allow one, and the only site visited is our own.
    options = ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb", "--font-render-hinting=none"]
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield started
        finally:
            await started.close()


@asynccontextmanager
async def opened(browser: Browser, url: str, **options) -> AsyncIterator[Page]:
    """One tab. What the page writes as an error, and requests to anywhere else, are in `tab.problems`."""
    context = await browser.new_context(
        **{"viewport": {"width": 1400, "height": 900}, "reduced_motion": "reduce", **options}
    )
    context.set_default_timeout(PATIENCE_MS)
    tab = await context.new_page()
    tab.problems = []
    tab.on("pageerror", lambda error: tab.problems.append(f"error: {error}"))
    tab.on("console", lambda said: tab.problems.append(said.text) if said.type in ("error", "warning") else None)
    home = url.split("#")[0].rstrip("/")
    tab.on("request", lambda asked: None if asked.url.startswith(home) else tab.problems.append(f"asked {asked.url}"))
    try:
        await tab.goto(url)
        yield tab
    finally:
        await context.close()
