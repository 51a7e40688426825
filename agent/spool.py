"""Reports on disk until the bus has them: in order, bounded, and never silently lost."""

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

log = logging.getLogger(__name__)

FILE_NAME = "spool.db"
SCHEMA_VERSION = 1
BUSY_SECONDS = 5.0

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SIZE = "SELECT coalesce(sum(length(body)), 0) FROM reports"
_WAITING = "SELECT count(*), coalesce(sum(length(body)), 0) FROM reports"
_OLDEST = "SELECT seq, body FROM reports ORDER BY seq LIMIT 1"

MakeBody = Callable[[str, int], bytes]
Result = TypeVar("Result")


class SpoolError(Exception):
    """The disk refused; the text says what, and where."""


class _DamagedError(Exception):
    """The file is no spool of ours any more."""


class Row(msgspec.Struct, frozen=True):
    """A report that waits. `is_new`: it was written by this process, so no other can have sent it."""

    epoch: str
    seq: int
    body: bytes
    is_new: bool


class Spool:
    """Rows numbered without a gap within an epoch: a number that never arrives was dropped here, and shows.

    The epoch is random and secret, made with the file. SQLite runs in one thread of its own, so that a slow disk stops
    nobody else. `max_bytes` bounds the sum of the reports; when it is reached the oldest go first.
    """

    def __init__(self, state_dir: Path, max_bytes: int) -> None:
        self.path = state_dir / FILE_NAME
        self.epoch = ""
        self.last_seq = 0
        self.appended = asyncio.Event()
        self._max_bytes = max_bytes
        self._is_dropping = False
        self._last_old_seq = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spool")
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Opens or makes the file; one that is damaged is moved aside, never deleted. Raises SpoolError."""
        await self._run(lambda database: None)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    async def append(self, make_body: MakeBody, open_window: bytes) -> int:
        """Writes the report and the window that is open after it, both or neither; returns the report's number."""
        self.last_seq = await self._run(lambda database: self._append(database, make_body, open_window))
        self.appended.set()
        return self.last_seq

    async def oldest(self) -> Row | None:
        """The report to send next."""
        row = await self._run(lambda database: database.execute(_OLDEST).fetchone())
        return None if row is None else Row(self.epoch, row[0], row[1], row[0] > self._last_old_seq)

    async def waiting(self) -> tuple[int, int]:
        """How many reports wait, and their bytes together. Raises SpoolError."""
        return await self._run(lambda database: database.execute(_WAITING).fetchone())

    async def delete(self, row: Row) -> None:
        """Removes a report that the bus has."""
        await self._run(lambda database: self._delete(database, row))

    async def keep_open_window(self, open_window: bytes) -> None:
        await self._run(lambda database: _put(database, "open_window", open_window))

    async def open_window(self) -> bytes | None:
        """What was last kept as the open window."""
        return await self._run(lambda database: _fact(database, "open_window"))

    async def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """In the thread. A damaged file is replaced, and the work done on the new one."""
        try:
            try:
                return self._in_transaction(work)
            except (sqlite3.DatabaseError, _DamagedError) as error:
                if not _is_damage(error):
                    raise
                self._move_aside(error)
                return self._in_transaction(work)
        except (sqlite3.Error, OSError, _DamagedError) as error:
            raise SpoolError(f"the spool {self.path} cannot be used: {error}") from error

    def _in_transaction(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        database = self._connect()
        with _transaction(database):
            return work(database)

    def _connect(self) -> sqlite3.Connection:
        if self._database is None:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # the epoch in it is secret
            database = sqlite3.connect(self.path, isolation_level=None, timeout=BUSY_SECONDS)
            try:
                self._prepare(database)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA journal_size_limit = 1048576")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            _make(database)
            log.info("spool made path=%s", self.path)
        elif version != SCHEMA_VERSION:
            raise _DamagedError(f"it is of version {version}, this agent writes version {SCHEMA_VERSION}")
        elif (found := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise _DamagedError(found)
        epoch, last_seq = _fact(database, "epoch"), _fact(database, "last_seq")
        if epoch is None or last_seq is None:
            raise _DamagedError("it names no epoch")
        self.epoch, self.last_seq = epoch.decode(), int(last_seq)
        self._last_old_seq = self.last_seq

    def _append(self, database: sqlite3.Connection, make_body: MakeBody, open_window: bytes) -> int:
        seq = int(_fact(database, "last_seq") or 0) + 1
        body = make_body(self.epoch, seq)
        self._make_room(database, len(body))
        database.execute("INSERT INTO reports (seq, body) VALUES (?, ?)", (seq, body))
        _put(database, "last_seq", str(seq).encode())
        _put(database, "open_window", open_window)
        return seq

    def _make_room(self, database: sqlite3.Connection, wanted_bytes: int) -> None:
        size_bytes = database.execute(_SIZE).fetchone()[0]
        is_full = size_bytes + wanted_bytes > self._max_bytes
        if is_full and not self._is_dropping:
            log.error("spool full, the oldest reports are dropped path=%s max_bytes=%d", self.path, self._max_bytes)
        self._is_dropping = is_full
        while size_bytes + wanted_bytes > self._max_bytes and (row := database.execute(_OLDEST).fetchone()):
            database.execute("DELETE FROM reports WHERE seq = ?", (row[0],))
            size_bytes -= len(row[1])

    def _delete(self, database: sqlite3.Connection, row: Row) -> None:
        if row.epoch == self.epoch:
            database.execute("DELETE FROM reports WHERE seq = ?", (row.seq,))

    def _move_aside(self, why: Exception) -> None:
        self._disconnect()
        names = (self.path.with_name(f"{FILE_NAME}.damaged-{number}") for number in itertools.count(1))
        aside = next(name for name in names if not name.exists())
        for ending in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        log.error("spool damaged, moved aside and begun anew path=%s moved_to=%s error=%s", self.path, aside, why)

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _make(database: sqlite3.Connection) -> None:
    with _transaction(database):
        database.execute("CREATE TABLE reports (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        database.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        _put(database, "epoch", secrets.token_hex(16).encode())
        _put(database, "last_seq", b"0")
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _put(database: sqlite3.Connection, name: str, value: bytes) -> None:
    database.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))


def _fact(database: sqlite3.Connection, name: str) -> bytes | None:
    row = database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])


def _is_damage(error: Exception) -> bool:
    """A full disk or a locked file is no damage."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, _DamagedError) or (code is not None and code & 0xFF in _DAMAGED)
