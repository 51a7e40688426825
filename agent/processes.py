"""Explains a process from /proc: who runs what, since when. Never takes part in a verdict."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from wire.messages import Process

_PROC = Path("/proc")
_PASSWD = Path("/etc/passwd")
_START_TICKS = 19  # field 22 of /proc/PID/stat, counted after the closing bracket of field 2


def explain(processes: Iterable[Process], *, proc: Path = _PROC, passwd: Path = _PASSWD) -> tuple[Process, ...]:
    """The same processes with what /proc knows; a process that is gone stays as it is.

    The command is the kernel's short name: arguments may hold secrets, and reading them waits for the memory map of a
    process that may hang in the driver. Users are looked up in the file only: a directory server may not answer.
    """
    listed = tuple(processes)
    if not listed:
        return ()
    users, boot_seconds = _users(passwd), _boot_seconds(proc)
    return tuple(_explained(process, proc, users, boot_seconds) for process in listed)


def _explained(process: Process, proc: Path, users: dict[int, str], boot_seconds: int | None) -> Process:
    folder = proc / str(process.pid)
    try:
        uid = folder.stat().st_uid
        name, fields = _stat(folder)
        started_at = _started_at(fields, boot_seconds)
    except (OSError, ValueError, IndexError, OverflowError):
        return process
    return replace(process, user=users.get(uid, f"uid {uid}"), command=_printable(name), started_at=started_at)


def _stat(folder: Path) -> tuple[str, list[str]]:
    """The name may hold spaces and brackets, so it ends at the last bracket."""
    text = (folder / "stat").read_text(errors="replace")
    head, _, tail = text.rpartition(")")
    return head.split("(", 1)[1], tail.split()


def _started_at(fields: list[str], boot_seconds: int | None) -> datetime | None:
    if boot_seconds is None or len(fields) <= _START_TICKS:
        return None
    return datetime.fromtimestamp(boot_seconds + int(fields[_START_TICKS]) // os.sysconf("SC_CLK_TCK"), UTC)


def _boot_seconds(proc: Path) -> int | None:
    try:
        lines = (proc / "stat").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    except (OSError, ValueError, IndexError):
        return None


def _users(passwd: Path) -> dict[int, str]:
    try:
        rows = [line.split(":") for line in passwd.read_text(errors="replace").splitlines()]
    except OSError:
        return {}
    return {int(row[2]): _printable(row[0]) for row in rows if len(row) > 2 and row[2].isdecimal()}


def _printable(text: str) -> str:
    """Names are chosen by others: no control characters, no surrogates, a bounded length."""
    return "".join(character if character.isprintable() else "?" for character in text)[:64]
