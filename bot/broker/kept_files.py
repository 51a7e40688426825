"""The files of one folder as values, of which each is read again only where it may have changed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from bot import clock

Value = TypeVar("Value")
# Within this, two changes can have the same time stamp, and the second one may get the first one's inode.
SETTLED_SECONDS = 5.0


class _Stamp(NamedTuple):
    inode: int
    size: int
    changed_ns: int


class KeptFiles(Generic[Value]):
    """For a folder of 10,000 files that is looked at every few seconds. `read` gives None for what cannot be read."""

    def __init__(self, folder: Path, suffix: str, read: Callable[[Path], Value | None]) -> None:
        self._folder = folder
        self._suffix = suffix
        self._read = read
        self._kept: dict[str, tuple[_Stamp, Value]] = {}

    def values(self) -> dict[str, Value]:
        """By the file's name without its suffix, sorted; without what cannot be read. Raises OSError."""
        kept, values = {}, {}
        for name, stamp in sorted(self._found()):
            before = self._kept.get(name)
            value = before[1] if before and before[0] == stamp else self._read(self._folder / (name + self._suffix))
            if value is not None:
                values[name] = value
                if abs(clock.now().timestamp() - stamp.changed_ns / 1e9) > SETTLED_SECONDS:
                    kept[name] = (stamp, value)
        self._kept = kept
        return values

    def _found(self) -> Iterator[tuple[str, _Stamp]]:
        try:
            entries = os.scandir(self._folder)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if entry.name.endswith(self._suffix):
                    yield entry.name.removesuffix(self._suffix), _stamp(entry)


def _stamp(entry: os.DirEntry[str]) -> _Stamp:
    """Of the file, or, where it is a link to nothing, of the link."""
    try:
        found = entry.stat()
    except OSError:
        found = entry.stat(follow_symlinks=False)
    return _Stamp(found.st_ino, found.st_size, found.st_ctime_ns)
