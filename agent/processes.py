"""Explains a process from /proc: who runs what, where, since when. Never takes part in a verdict."""

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent.cgroups import Owner, owner_of
from agent.clock import Clock
from agent.proc_files import read_proc
from wire.messages import Process

_PROC = Path("/proc")
_PASSWD = Path("/etc/passwd")
_POD_LOGS = Path("/var/log/pods")  # kubelet's: one folder per pod, NAMESPACE_NAME_UID
_SHOWN_ID_CHARACTERS = 12  # of a container's id, as `docker ps` and `crictl ps` show it
_START_TICKS = 19  # field 22 of /proc/PID/stat, counted after the closing bracket of field 2


def explain(
    processes: Iterable[Process], *, proc: Path = _PROC, passwd: Path = _PASSWD, pod_logs: Path = _POD_LOGS
) -> tuple[Process, ...]:
    """The same processes with what /proc knows; a process that is gone stays as it is.

    The command is the kernel's short name: arguments may hold secrets, and reading them waits for the memory map of a
    process that may hang in the driver. Users are looked up in the file only: a directory server may not answer. A
    process is read once however many GPUs it is on.
    """
    listed = tuple(processes)
    if not listed:
        return ()
    users, boot_seconds = _users(passwd), _boot_seconds(proc)
    facts = {pid: {**_who(pid, proc, users, boot_seconds), **_where(pid, proc)} for pid in {one.pid for one in listed}}
    return tuple(_with_pod_names([replace(process, **facts[process.pid]) for process in listed], pod_logs))


def _who(pid: int, proc: Path, users: Mapping[int, str], boot_seconds: int | None) -> dict[str, Any]:
    folder = f"{proc}/{pid}"
    try:
        uid = os.stat(folder).st_uid
        name, fields = _stat(folder)
        started_at = _started_at(fields, boot_seconds)
    except (OSError, ValueError, IndexError, OverflowError):
        return {}
    user, started = users.get(uid, f"uid {uid}"), _started(fields)
    return {"user": user, "command": _printable(name), "started_at": started_at, "started": started}


def read_owner(pid: int, *, proc: Path = _PROC) -> Owner:
    """By the process's control groups only: its environment is its own to write."""
    try:
        return owner_of(read_proc(f"{proc}/{pid}/cgroup"))
    except OSError:
        return Owner(is_known=False)


def _where(pid: int, proc: Path) -> dict[str, Any]:
    owner = read_owner(pid, proc=proc)
    return {"container": _short(owner.container), "pod": owner.pod_uid, "job": owner.job}


def _short(container: str | None) -> str | None:
    if container is None:
        return None
    runtime, _, identity = container.partition(":")
    return f"{runtime}:{identity if runtime == 'lxc' else identity[:_SHOWN_ID_CHARACTERS]}"


def _with_pod_names(processes: list[Process], pod_logs: Path) -> Iterable[Process]:
    """A pod's uid becomes namespace/name where kubelet's log folder is there to tell."""
    if all(process.pod is None for process in processes):
        return processes
    try:
        names = [folder.rsplit("_", 1) for folder in os.listdir(pod_logs)]
    except OSError:
        return processes
    by_uid = {name[1]: _printable(name[0].replace("_", "/", 1), 128) for name in names if len(name) == 2}
    return [replace(process, pod=by_uid.get(process.pod or "", process.pod)) for process in processes]


def _stat(folder: str) -> tuple[str, list[str]]:
    """The name may hold spaces and brackets, so it ends at the last bracket."""
    text = read_proc(f"{folder}/stat")
    head, _, tail = text.rpartition(")")
    return head.split("(", 1)[1], tail.split()


def _started(fields: list[str]) -> str:
    """As it stands there: the process's identity beside its pid."""
    ticks = fields[_START_TICKS] if len(fields) > _START_TICKS else ""
    return ticks if ticks.isdecimal() else ""


def _started_at(fields: list[str], boot_seconds: int | None) -> datetime | None:
    if boot_seconds is None or len(fields) <= _START_TICKS:
        return None
    return datetime.fromtimestamp(boot_seconds + int(fields[_START_TICKS]) // os.sysconf("SC_CLK_TCK"), UTC)


def _boot_seconds(proc: Path) -> int | None:
    clock = Clock()
    try:
        return _read_boot_seconds(proc, round(clock.wall().timestamp() - clock.boottime_seconds()))
    except (OSError, ValueError, IndexError):
        return None


@lru_cache(maxsize=1)
def _read_boot_seconds(proc: Path, _set_to: int) -> int | None:
    """Read again only when somebody has set the clock: the kernel counts all interrupts of all cores for this file."""
    lines = read_proc(f"{proc}/stat").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)


def _users(passwd: Path) -> Mapping[int, str]:
    try:
        status = passwd.stat()
        return _read_users(passwd, (status.st_ino, status.st_mtime_ns, status.st_size))
    except OSError:
        return {}


@lru_cache(maxsize=1)
def _read_users(passwd: Path, _version: tuple[int, int, int]) -> Mapping[int, str]:
    rows = [line.split(":") for line in read_proc(str(passwd)).splitlines()]
    return {int(row[2]): _printable(row[0]) for row in rows if len(row) > 2 and row[2].isdecimal()}


def _printable(text: str, longest: int = 64) -> str:
    """Names are chosen by others: no control characters, no surrogates, a bounded length."""
    if text.isprintable():
        return text[:longest]
    return "".join(character if character.isprintable() else "?" for character in text)[:longest]
