"""Keeps a runner's memory on disk, so that a restart of the agent neither forgets nor invents."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from agent.progress import Memory
from agent.runners.offloop import OffLoop

log = logging.getLogger(__name__)

_WRITE_SECONDS = 5.0


class Kept(msgspec.Struct, frozen=True):
    """`sources` is the readers' own."""

    memory: Memory | None = None
    sources: Any = None


class Keeper:
    """Whole or not at all. Not synced: after a power cut another boot has begun, and its clocks are void."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path, self._name, self._off_loop = folder / f"{name}.json", name, OffLoop()
        self._is_failing = False

    def load(self) -> Kept:
        """Nothing where nothing can be used: the clocks then begin anew."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Kept)
        except FileNotFoundError:
            return Kept()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("what was kept of a runner cannot be read, its clocks begin anew runner=%s %s", self._name, error)
            return Kept()

    async def keep(self, kept: Kept) -> None:
        """Never raises: a disk that refuses is said once."""
        body = msgspec.json.encode(kept)
        try:
            await self._off_loop.read(lambda: self._write(body), _WRITE_SECONDS)
        except OSError as error:
            if not self._is_failing:
                log.error("a runner's clocks cannot be kept runner=%s error=%s", self._name, error.strerror or error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _write(self, body: bytes) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
            os.replace(name, self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
