"""The bot's parts from arrived windows to rows, tracks and incidents, on a new database."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.ingest import Arrived, Ingest
from bot.judge.candidate import CandidateRule
from bot.listen import CHUNK
from bot.store.migrate import migrate
from bot.store.writer import Store
from tests.build import START
from wire import subjects


@dataclass(frozen=True)
class Judging:
    store: Store
    fleet: Fleet
    advance: Advance
    ingest: Ingest

    async def store_at_rate(self, windows_per_second: int, messages: Sequence[Arrived]) -> float:
        """Chunk after chunk at the offered rate, or as fast as it goes where that is slower: windows per second."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for begin in range(0, len(messages), CHUNK):
            await asyncio.sleep(begun + begin / windows_per_second - loop.time())
            taken = await self.ingest.take(subjects.STREAM, START, messages[begin : begin + CHUNK])
            assert taken.stored
        return len(messages) / (loop.time() - begun)


@contextlib.asynccontextmanager
async def judging(database: Path | str) -> AsyncIterator[Judging]:
    """On SQLite in that file, or on the database of that URL."""
    store = Store(database if isinstance(database, str) else f"sqlite:///{database}")
    try:
        migrate(store.engine)
        fleet = Fleet(CandidateRule())
        advance = Advance(store, fleet, AdvanceSettings(timedelta(seconds=60), timedelta(seconds=1), shadow=False))
        await advance.start()
        yield Judging(store, fleet, advance, Ingest(store, fleet, advance))
    finally:
        store.close()
