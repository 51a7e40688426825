"""What bot and node have written down, read beside the running programs."""

import sqlite3
import zlib
from pathlib import Path

import msgspec

from agent.record import RecordLine
from wire.messages import Observation


def rows(data_dir: Path, query: str, *values: object) -> list[sqlite3.Row]:
    """Reads the bot's database; nothing as long as there is none."""
    file = data_dir / "gpu-oncall.sqlite"
    if not file.exists():
        return []
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
        finally:
            connection.commit()


def stored_windows(data_dir: Path, node: str) -> list[Observation]:
    query = "SELECT body FROM node_window WHERE node = ? ORDER BY spool_epoch, seq"
    return [msgspec.json.decode(zlib.decompress(row["body"]), type=Observation) for row in rows(data_dir, query, node)]


def recorded(state_dir: Path) -> list[RecordLine]:
    """The node's own record, GPUs one after the other."""
    file = state_dir / "windows.jsonl"
    return (
        [msgspec.json.decode(line, type=RecordLine) for line in file.read_text().splitlines()] if file.exists() else []
    )


def recorded_windows(state_dir: Path) -> list[tuple[int, str]]:
    """(window number, verdict) of each line of the node's own record."""
    return [(line.window, str(line.verdict)) for line in recorded(state_dir)]
