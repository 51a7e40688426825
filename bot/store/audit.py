"""The record of remedies: rows are only ever added, and each carries the hash of the one before."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.store.schema import audit, microseconds

_FIRST = "0" * 64
HEAD_DIGITS = 16
LONGEST = 500
_PAGE = 1000


class Entry(msgspec.Struct, frozen=True):
    """Who did what about which remedy, and why. `who` "" is the bot itself; `remedy` 0 belongs to none."""

    at: datetime
    who: str
    what: str
    why: str = ""
    remedy: int = 0
    node: str = ""


class Recorded(msgspec.Struct, frozen=True):
    number: int
    entry: Entry
    before: str
    hash: str


class Head(msgspec.Struct, frozen=True):
    """The newest row: its number, and the first digits of its hash. Whoever kept one notices a cut tail."""

    number: int
    digits: str

    def __str__(self) -> str:
        return f"{self.number}:{self.digits}"


def head_of(text: str) -> Head:
    """`57:3f2a9c81d2e40b17`; raises ValueError."""
    number, _, digits = text.strip().partition(":")
    is_right = number.isascii() and number.isdigit() and len(digits) >= 8 and set(digits) <= set("0123456789abcdef")
    if not is_right:
        raise ValueError("wants a head as cards print it, such as 57:3f2a9c81d2e40b17")
    return Head(int(number), digits)


def append(connection: Connection, entry: Entry) -> Head:
    """In the transaction of what it records, so that neither is there without the other."""
    newest = connection.execute(
        sa.select(audit.c.number, audit.c.hash).order_by(audit.c.number.desc()).limit(1)
    ).first()
    number, before = (newest.number + 1, newest.hash) if newest else (1, _FIRST)
    entry = Entry(entry.at, _kept(entry.who), _kept(entry.what), _kept(entry.why), entry.remedy, entry.node)
    hashed = _hash(number, entry, before)
    values = msgspec.structs.asdict(entry) | {"number": number, "before": before, "hash": hashed}
    connection.execute(sa.insert(audit).values(**values))
    return Head(number, hashed[:HEAD_DIGITS])


def _kept(text: str) -> str:
    """PostgreSQL takes no NUL, and a node may say one: its word must not keep the record from being written."""
    return text.replace("\0", "\ufffd")[:LONGEST]


def head(connection: Connection) -> Head | None:
    """None: nothing was recorded yet."""
    newest = connection.execute(
        sa.select(audit.c.number, audit.c.hash).order_by(audit.c.number.desc()).limit(1)
    ).first()
    return Head(newest.number, newest.hash[:HEAD_DIGITS]) if newest else None


def of_remedy(connection: Connection, remedy: int) -> Sequence[Recorded]:
    return list(_rows(connection, sa.select(audit).where(audit.c.remedy == remedy).order_by(audit.c.number)))


# --- is it whole? ---------------------------------------------------------------------------------------------------


def verify(connection: Connection, kept: Head | None = None) -> tuple[int, Sequence[str]]:
    """How many rows there are, and a sentence for each place where the chain is broken.

    `kept` is a head that somebody wrote down: without one, a tail that was cut off cannot show.
    """
    wrong: list[str] = []
    number, before, seen = 0, _FIRST, None
    for row in _every_row(connection):
        wrong += _broken(row, number, before)
        if kept and row.number == kept.number:
            seen = row.hash
        number, before = row.number, row.hash
    return number, [*wrong, *(_against(kept, seen, number) if kept else ())]


def _broken(row: Recorded, number: int, before: str) -> Iterator[str]:
    if row.number != number + 1:
        yield f"between row {number} and row {row.number} rows were removed or inserted"
    if row.before != before:
        yield f"row {row.number} does not follow from the row before it: one of them was removed, inserted or changed"
    if _hash(row.number, row.entry, row.before) != row.hash:
        yield f"row {row.number} was changed: {row.entry.what}, {row.entry.at.isoformat()}"


def _against(kept: Head, seen: str | None, number: int) -> Iterator[str]:
    if seen is None:
        yield f"row {kept.number} is missing: the record ends at row {number}, so its tail was cut off"
    elif not seen.startswith(kept.digits):
        yield f"row {kept.number} is not the one whose head was kept: the record was written anew"


def _hash(number: int, entry: Entry, before: str) -> str:
    parts = [number, microseconds(entry.at), entry.who, entry.what, entry.why, entry.remedy, entry.node, before]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _every_row(connection: Connection) -> Iterator[Recorded]:
    """A page at a time: the record is kept for ever."""
    query = sa.select(audit).order_by(audit.c.number)
    with connection.execution_options(yield_per=_PAGE).execute(query) as rows:
        for row in rows.mappings():
            yield _recorded(row)


def _rows(connection: Connection, query: sa.Select[tuple[object, ...]]) -> Iterator[Recorded]:
    for row in connection.execute(query).mappings():
        yield _recorded(row)


def _recorded(row: sa.RowMapping) -> Recorded:
    entry = Entry(row["at"], row["who"], row["what"], row["why"], row["remedy"], row["node"])
    return Recorded(row["number"], entry, row["before"], row["hash"])
