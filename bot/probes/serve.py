"""The bot's pages: /healthz (should it be ended?), /readyz (does it work?), /metrics; and who else is told."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST

from bot.probes.dead_mans_switch import DeadMansSwitch
from bot.probes.gather import Gatherer
from bot.probes.metrics import metrics_text
from bot.probes.vitals import why_hung, why_not_working
from wire.pages import Page, pages
from wire.supervised import supervised

LOOK_EVERY_SECONDS = 5.0


@contextlib.asynccontextmanager
async def probed(
    gatherer: Gatherer,
    listen: tuple[str, int] | None,
    version: str,
    heartbeat_url: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> AsyncIterator[int]:
    """Tells how the bot is until the end of the block; gives the port of the pages, 0 for none."""
    watch = _Watch(gatherer, version)
    routes = {"/healthz": watch.healthz, "/readyz": watch.readyz, "/metrics": watch.metrics}
    loops = [watch.run(), supervised(lambda: watch.hung, environment)]
    if heartbeat_url:
        loops.append(DeadMansSwitch(heartbeat_url, watch.why_not_working).run())
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        with pages(listen, routes) as port:
            yield port
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Watch:
    def __init__(self, gatherer: Gatherer, version: str) -> None:
        self._gatherer = gatherer
        self._version = version
        self.hung: str | None = None

    async def run(self) -> None:
        """For systemd, which is told without waiting."""
        while True:
            self.hung = why_hung(await self._gatherer.vitals(of_nodes=False))
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def why_not_working(self) -> list[str]:
        vitals = await self._gatherer.vitals(of_nodes=False)
        return ["this bot waits for the one that works"] if vitals.waits else why_not_working(vitals)

    async def healthz(self) -> Page:
        why = why_hung(await self._gatherer.vitals(of_nodes=False))
        return _page([why] if why else [])

    async def readyz(self) -> Page:
        return _page(why_not_working(await self._gatherer.vitals(of_nodes=False)))

    async def metrics(self) -> Page:
        return Page(200, metrics_text(await self._gatherer.vitals(), self._version), CONTENT_TYPE_LATEST)


def _page(reasons: list[str]) -> Page:
    lines = "".join(f"{reason}\n" for reason in reasons)
    return Page(503, lines.encode()) if reasons else Page(200, b"ok\n")
