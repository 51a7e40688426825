"""Explains a process from /proc: who runs what, where, since when. Never takes part in a verdict."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from agent.cgroups import Owner, owner_of
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
    process that may hang in the driver. Users are looked up in the file only: a directory server may not answer.
    """
    listed = tuple(processes)
    if not listed:
        return ()
    users, boot_seconds = _users(passwd), _boot_seconds(proc)
    placed = [_placed(_explained(process, proc, users, boot_seconds), proc) for process in listed]
    return tuple(_with_pod_names(placed, pod_logs))


def _explained(process: Process, proc: Path, users: dict[int, str], boot_seconds: int | None) -> Process:
    folder = proc / str(process.pid)
    try:
        uid = folder.stat().st_uid
        name, fields = _stat(folder)
        started_at = _started_at(fields, boot_seconds)
    except (OSError, ValueError, IndexError, OverflowError):
        return process
    user, started = users.get(uid, f"uid {uid}"), _started(fields)
    return replace(process, user=user, command=_printable(name), started_at=started_at, started=started)


def read_owner(pid: int, *, proc: Path = _PROC) -> Owner:
    """By the process's control groups only: its environment is its own to write."""
    try:
        return owner_of((proc / str(pid) / "cgroup").read_text(errors="replace"))
    except OSError:
        return Owner(is_known=False)


def _placed(process: Process, proc: Path) -> Process:
    owner = read_owner(process.pid, proc=proc)
    return replace(process, container=_short(owner.container), pod=owner.pod_uid, job=owner.job)


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


def _stat(folder: Path) -> tuple[str, list[str]]:
    """The name may hold spaces and brackets, so it ends at the last bracket."""
    text = (folder / "stat").read_text(errors="replace")
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


def _printable(text: str, longest: int = 64) -> str:
    """Names are chosen by others: no control characters, no surrogates, a bounded length."""
    return "".join(character if character.isprintable() else "?" for character in text)[:longest]
