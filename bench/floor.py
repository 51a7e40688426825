"""What the libraries alone need for the same bytes: decode each report, keep it, one commit per chunk."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from wire.messages import Observation

_decode = msgspec.json.Decoder(Observation).decode


class Floor:
    """msgspec and plain sqlite3, as durable as the bot; it judges nothing and could answer nothing."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE report (node TEXT, seq INTEGER, body BLOB)")

    def take(self, bodies: Iterable[bytes]) -> None:
        reports = [(_decode(body), body) for body in bodies]
        self._connection.execute("BEGIN IMMEDIATE")
        rows = [(report.node, report.seq, body) for report, body in reports]
        self._connection.executemany("INSERT INTO report VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()
