"""A collector that lets go of the driver for as long as a person wants it, and says so in place of readings."""

import logging

from agent.collectors import Collector
from agent.reading import Sweep
from agent.releases import Answer, Release, ReleaseError, Releases

_log = logging.getLogger(__name__)


class Releasable:
    """Asks the state folder at every sweep. During a release every sweep is an error: never idle, never silence.

    `answers`: only the agent itself may say that it has let go.
    """

    def __init__(self, collector: Collector, releases: Releases, *, answers: bool) -> None:
        self.name = collector.name
        self._collector, self._releases, self._answers = collector, releases, answers
        self._let_go_for: str | None = None

    async def sweep(self) -> Sweep:
        try:
            release = self._releases.current()
        except ReleaseError as error:
            await self._collector.let_go()
            return Sweep(error=str(error))
        if release is None:
            self._let_go_for = None
            return await self._collector.sweep()
        kept = await self._let_go(release)
        if kept is not None:
            return Sweep(error=f"{release.sentence()}; {kept}")
        return Sweep(error=release.sentence(), released=release.by_whom())

    async def let_go(self) -> str | None:
        return await self._collector.let_go()

    async def close(self) -> None:
        await self._collector.close()

    async def _let_go(self, release: Release) -> str | None:
        """Once for each release; again at every sweep as long as the driver holds on to a process."""
        if self._let_go_for == release.request:
            return None
        kept = await self._collector.let_go()
        if kept is None:
            self._let_go_for = release.request
            _log.info("let go of the GPUs for=%s until=%s", release.by, release.until.isoformat())
        if self._answers:
            self._answer(Answer(release.request, kept))
        return kept

    def _answer(self, answer: Answer) -> None:
        try:
            self._releases.answer(answer)
        except OSError as error:
            _log.error("a release cannot be answered error=%s", error)
