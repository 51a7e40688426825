"""Witnesses from the kernel's log: Xid messages of the driver, by /dev/kmsg, else by the journal."""

import errno
import os
import re
from pathlib import Path

import msgspec

from agent.runners.sources import COMMAND_SECONDS, Unread, run_command
from wire.ticks import Witness, WitnessKind, sentence

KMSG = Path("/dev/kmsg")
WITNESS_SECONDS = 600.0  # as long as a message speaks for a broken driver
_MOST_KEPT = 8
_RECORD_BYTES = 8192
_RECORD = re.compile(rb"\d+,\d+,(\d+),[^;]*;([^\n]*)")
_JOURNAL_LINE = re.compile(rb"\[ *(\d+\.\d+)\] [^:]*: (.*)")
_XID = re.compile(r"NVRM: (Xid \(PCI:[0-9A-Fa-f:.]+\): \d+|GPU .{0,60}has fallen off the bus)")
_OF_A_PROGRAM = frozenset({"13", "31", "43", "45", "68", "69"})  # a program's own mistake, or its end: no broken driver


class Xid(msgspec.Struct, frozen=True):
    """`at_seconds` is on the kernel's monotonic clock."""

    at_seconds: float
    words: str


class KernelLog:
    """Read once per tick for all runners. `why_unreadable` is None while the log can be read."""

    def __init__(self, path: Path = KMSG) -> None:
        self._path, self._handle, self._cursor = path, -1, ""
        self._xids: tuple[Xid, ...] = ()
        self.why_unreadable: str | None = None

    async def read(self, now_seconds: float) -> tuple[Witness, ...]:
        """`now_seconds` on the monotonic clock, which the kernel stamps its messages with."""
        lines = self._records()
        if lines is None:
            lines = await self._journal()
        found = [Xid(at, xid) for at, words in lines if (xid := _xid_in(words))]
        kept = [xid for xid in (*self._xids, *found) if now_seconds - xid.at_seconds <= WITNESS_SECONDS]
        self._xids = tuple(kept[-_MOST_KEPT:])
        return tuple(Witness(WitnessKind.XID, max(0.0, now_seconds - xid.at_seconds), xid.words) for xid in self._xids)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _records(self) -> list[tuple[float, str]] | None:
        """What is new, at first all that the kernel still has; None where it may not be read."""
        try:
            if self._handle < 0:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            found = list[tuple[float, str]]()
            while record := self._next():
                match = _RECORD.match(record)
                if match is not None:
                    found.append((int(match[1]) / 1e6, match[2].decode(errors="replace")))
        except OSError as error:
            self.why_unreadable = f"{self._path}: {error.strerror}"
            return None
        self.why_unreadable = None
        return found

    def _next(self) -> bytes:
        while True:
            try:
                return os.read(self._handle, _RECORD_BYTES)
            except BlockingIOError:
                return b""
            except OSError as error:
                if error.errno != errno.EPIPE:  # the kernel had to drop some: the next read goes on behind the gap
                    raise

    async def _journal(self) -> list[tuple[float, str]]:
        place = [f"--after-cursor={self._cursor}"] if self._cursor else ["--boot", "--lines=1000"]
        command = ["journalctl", "--quiet", "--dmesg", "--output=short-monotonic", "--show-cursor", *place]
        output = await run_command(command, COMMAND_SECONDS)
        if isinstance(output, Unread):
            self.why_unreadable = f"{self.why_unreadable}; {output.why}"
            return []
        self.why_unreadable = None
        lines = output.splitlines()
        if lines and lines[-1].startswith(b"-- cursor: "):
            self._cursor = lines.pop().removeprefix(b"-- cursor: ").decode(errors="replace")
        matches = [match for line in lines if (match := _JOURNAL_LINE.match(line))]
        return [(float(match[1]), match[2].decode(errors="replace")) for match in matches]


def _xid_in(words: str) -> str:
    """The message from its number on, "" for anything else."""
    match = _XID.search(words)
    if match is None or match[1].rpartition(" ")[2] in _OF_A_PROGRAM:
        return ""
    return sentence(match[1])
