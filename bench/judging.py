"""The bot's parts from arrived windows to rows, tracks and incidents, on a new database."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.ingest import Ingest
from bot.judge.candidate import CandidateRule
from bot.store.migrate import migrate
from bot.store.writer import Store


@dataclass(frozen=True)
class Judging:
    store: Store
    fleet: Fleet
    advance: Advance
    ingest: Ingest


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
