"""What is red about the bot's way to people, and why: for `check`, App Home and probes."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from sqlalchemy import Connection

from bot.render.words import words
from bot.store import backlog, troubles
from bot.store.backlog import Backlog
from bot.store.troubles import KnownTrouble

LATE = timedelta(seconds=60)


class Red(msgspec.Struct, frozen=True):
    """`since` None: it cannot be told. `key` is that of the sentence in `why`, which counts `count`; "": none."""

    name: str
    why: str
    since: datetime | None = None
    key: str = ""
    count: int = 0


class Health(msgspec.Struct, frozen=True):
    """Nothing red is healthy. `waiting` messages should be in Slack by now."""

    reds: Sequence[Red]
    waiting: int

    @property
    def is_red(self) -> bool:
        return bool(self.reds)


def health(connection: Connection, now: datetime) -> Health:
    """As the running bot wrote it down last; other processes may ask."""
    known, waits = troubles.all_troubles(connection), backlog.backlog(connection, now)
    return health_of(known, waits, now)


def health_of(known: Sequence[KnownTrouble], waits: Backlog, now: datetime) -> Health:
    return Health([Red(one.name, one.message, one.since) for one in known] + list(_of(waits, now)), waits.waiting)


def _of(waits: Backlog, now: datetime) -> Iterator[Red]:
    if waits.oldest is not None and now - waits.oldest > LATE:
        yield _red("outbox", "health.waiting", waits.waiting, waits.oldest)
    if waits.deleted:
        yield _red("deleted cards", "health.deleted", waits.deleted)
    if waits.frozen:
        yield _red("frozen cards", "health.frozen", waits.frozen)


def _red(name: str, key: str, count: int, since: datetime | None = None) -> Red:
    """In English, as `check` says it."""
    return Red(name, words("en").plain_counted(key, count), since, key, count)
