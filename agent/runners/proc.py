"""The runner's process in /proc: who it is, its state, what it has read. Nothing here waits for the process itself."""

import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path

from agent.runner_reading import RunnerProcess
from wire.ticks import ProcessState

PROC = Path("/proc")
GONE = RunnerProcess(ProcessState.GONE)

_STATES = {
    "D": ProcessState.BLOCKED,
    "T": ProcessState.STOPPED,
    "t": ProcessState.STOPPED,
    "Z": ProcessState.GONE,
    "X": ProcessState.GONE,
    "x": ProcessState.GONE,
}
_STATE, _PARENT, _START_TICKS = 0, 1, 19  # fields 3, 4 and 22 of /proc/PID/stat, after the closing bracket of field 2
_LISTENS = "0A"
_KILL_BIT = 1 << (signal.SIGKILL - 1)


def process(pid: int, proc: Path = PROC) -> RunnerProcess:
    """GONE where there is none, and for a zombie: it does nothing any more. Raises OSError where it cannot be read."""
    try:
        _, fields = stat(pid, proc)
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        return GONE
    state = _STATES.get(fields[_STATE], ProcessState.ALIVE)
    if state is ProcessState.GONE:
        return GONE
    return RunnerProcess(state, pid, fields[_START_TICKS], _age_seconds(int(fields[_START_TICKS]), proc))


def _age_seconds(start_ticks: int, proc: Path) -> float | None:
    """Both are counted from boot."""
    try:
        uptime_seconds = float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return max(0.0, uptime_seconds - start_ticks / os.sysconf("SC_CLK_TCK"))


def stat(pid: int, proc: Path = PROC) -> tuple[str, list[str]]:
    """The kernel's short name and the fields after it. Raises OSError and ValueError."""
    text = (proc / str(pid) / "stat").read_text(errors="replace")
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) <= _START_TICKS:
        raise ValueError("a short line")
    return head.split("(", 1)[1], fields


def read_bytes(pid: int, proc: Path = PROC) -> float | None:
    """Bytes that the process has read from anywhere; None where that may not be read."""
    try:
        lines = (proc / str(pid) / "io").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("rchar:")), None)


def survived_kill(pid: int, started: str, proc: Path = PROC) -> bool:
    """Whether this very process lives although it was sent SIGKILL: only the kernel can hold it then."""
    try:
        known = process(pid, proc)
        if known.state is ProcessState.GONE or known.started != started:
            return False
        lines = (proc / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    masks = [line.split()[1] for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(int(mask, 16) & _KILL_BIT for mask in masks)


def pid_in(path: Path) -> int | None:
    """The first number of a pid file; None where it holds none. Raises OSError."""
    words = path.read_text(errors="replace")[:64].split()
    return int(words[0]) if words and words[0].isascii() and words[0].isdecimal() else None


def listener_of(port: int, proc: Path = PROC) -> int | None:
    """The process that listens on a TCP port; None where there is none, or where its files may not be read."""
    sockets = _listening_sockets(proc, port)
    return next((pid for pid in pids(proc) if sockets & _sockets_of(pid, proc)), None) if sockets else None


def ports_of(pid: int, proc: Path = PROC) -> list[int]:
    """The TCP ports on which a process listens."""
    own = _sockets_of(pid, proc)
    return sorted({port for port, socket in _all_listening(proc) if socket in own}) if own else []


def running(executable: Path, user: str | None, proc: Path = PROC) -> tuple[list[int], bool]:
    """Processes of exactly this file that are no child of another, and whether one of that name could not be seen.

    Raises LookupError for a user that is not known.
    """
    uid = None if user is None else pwd.getpwnam(user).pw_uid
    parents, are_hidden = dict[int, int](), False
    for pid in pids(proc):
        try:
            if os.readlink(proc / str(pid) / "exe").removesuffix(" (deleted)") != str(executable):
                continue
            if uid is None or (proc / str(pid)).stat().st_uid == uid:
                parents[pid] = int(stat(pid, proc)[1][_PARENT])
        except PermissionError:
            are_hidden = are_hidden or _has_name(pid, executable.name, proc)
        except (OSError, ValueError):  # a kernel's thread, or one that has just ended
            continue
    return [pid for pid, parent in parents.items() if parent not in parents], are_hidden


def _has_name(pid: int, name: str, proc: Path) -> bool:
    try:
        return stat(pid, proc)[0] == name[:15]
    except (OSError, ValueError, IndexError):
        return False


def pids(proc: Path = PROC) -> Iterator[int]:
    return (int(name) for name in os.listdir(proc) if name.isdecimal())


def children_named(name: str, parent: str, proc: Path = PROC) -> Iterator[tuple[int, int]]:
    """Processes with this short name whose parent has that one, each with its parent."""
    for pid in pids(proc):
        try:
            has_name, fields = stat(pid, proc)
            parent_pid = int(fields[_PARENT])
            if has_name == name[:15] and stat(parent_pid, proc)[0] == parent[:15]:
                yield pid, parent_pid
        except (OSError, ValueError, IndexError):
            continue


def _listening_sockets(proc: Path, port: int) -> set[str]:
    return {socket for its_port, socket in _all_listening(proc) if its_port == port}


def _all_listening(proc: Path) -> Iterator[tuple[int, str]]:
    for name in ("tcp", "tcp6"):
        try:
            rows = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if len(fields) > 9 and fields[3] == _LISTENS:
                yield int(fields[1].rpartition(":")[2], 16), f"socket:[{fields[9]}]"


def _sockets_of(pid: int, proc: Path) -> set[str]:
    folder, found = proc / str(pid) / "fd", set()
    try:
        names = os.listdir(folder)
    except OSError:
        return set()
    for name in names:
        try:
            found.add(os.readlink(folder / name))
        except OSError:  # closed meanwhile
            continue
    return {name for name in found if name.startswith("socket:")}
