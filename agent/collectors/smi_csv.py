"""Reads nvidia-smi's CSV so strictly that nothing but a complete answer of the known form passes."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from agent.reading import GpuReading, ProcessReading, Sweep, Unreadable
from wire.messages import ProcessKind

REQUIRED = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total", "name", "driver_version")
OPTIONAL = ("mig.mode.current", "gpu_recovery_action")  # older drivers do not know them
PROCESS_COLUMNS = ("gpu_uuid", "pid")
NO_PROCESSES = "No running compute processes found"

_MIB = 1024 * 1024
_NUMBER = re.compile(r"[0-9]{1,12}", re.ASCII)  # int() would take signs, underscores and other scripts' digits
_WORDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9 /_-]{0,63}", re.ASCII)
_NOT_SUPPORTED = frozenset({"[N/A]", "N/A", "[Not Supported]"})
_TOKENS = _NOT_SUPPORTED | {
    "[Insufficient Permissions]",
    "[Unknown Error]",
    "[Not Found]",
    "[GPU requires reset]",
    "[Function Not Found]",
    "[Requested functionality has been deprecated]",
    "ERR!",
}
_MIG = {"Enabled": True, "Disabled": False}


class BadOutputError(Exception):
    """The output is not what this program is known to print: nothing may be concluded from any part of it."""


class GpuRow(msgspec.Struct, frozen=True):
    """One line of the GPU query."""

    index: int
    uuid: str
    utilization_percent: int | Unreadable
    memory_used_bytes: int | Unreadable
    memory_total_bytes: int | Unreadable
    model: str | None
    driver_version: str | None
    mig_enabled: bool | Unreadable | None
    recovery_action: str | Unreadable | None


class ProcessRow(msgspec.Struct, frozen=True):
    """One line of the process query; the PID is unreadable where the driver hides it."""

    uuid: str
    pid: int | Unreadable


def parse_gpus(output: str, columns: Sequence[str]) -> list[GpuRow]:
    """Raises BadOutputError."""
    return [_gpu_row(dict(zip(columns, cells, strict=True))) for cells in _rows(output, len(columns))]


def parse_processes(output: str) -> list[ProcessRow]:
    """Raises BadOutputError. The one sentence that stands for an empty list is allowed only alone."""
    if output in (f"{NO_PROCESSES}\n", f"{NO_PROCESSES}\r\n"):
        return []
    rows = _rows(output, len(PROCESS_COLUMNS))
    return [ProcessRow(uuid, _number(pid, "pid")) for uuid, pid in rows]


def join(before: list[GpuRow], processes: list[ProcessRow], after: list[GpuRow]) -> Sweep:
    """One sweep of the two GPU queries and the process query between them; raises BadOutputError."""
    if [(row.index, row.uuid) for row in before] != [(row.index, row.uuid) for row in after]:
        raise BadOutputError("nvidia-smi listed other GPUs in the second query than in the first")
    uuids = {row.uuid for row in before}
    for process in processes:
        if process.uuid not in uuids:
            raise BadOutputError(f"nvidia-smi listed a process for the unknown GPU {process.uuid[:80]!r}")
    versions = {row.driver_version for row in (*before, *after)}
    if len(versions) > 1:
        raise BadOutputError(f"nvidia-smi gave more than one driver version: {sorted(map(str, versions))}")
    gpus = tuple(_reading(first, processes, second) for first, second in zip(before, after, strict=True))
    return Sweep(gpus, driver_version=next(iter(versions), None))


def _rows(output: str, columns: int) -> list[list[str]]:
    if not output:
        return []
    if not output.endswith("\n"):
        raise BadOutputError("nvidia-smi's output ends in the middle of a line")
    lines = [line.removesuffix("\r") for line in output[:-1].split("\n")]
    rows = [[cell.strip(" ") for cell in line.split(",")] for line in lines]
    for line, cells in zip(lines, rows, strict=True):
        if len(cells) != columns:
            raise BadOutputError(
                f"nvidia-smi printed a line of {len(cells)} columns in place of {columns}: {line[:120]!r}"
            )
    return rows


def _gpu_row(cells: Mapping[str, str]) -> GpuRow:
    index = _number(cells["index"], "index")
    if isinstance(index, Unreadable):
        raise BadOutputError(f"nvidia-smi printed {index.why!r} for a GPU's index: the line belongs to no GPU")
    return GpuRow(
        index=index,
        uuid=cells["uuid"],
        utilization_percent=_number(cells["utilization.gpu"], "utilization.gpu"),
        memory_used_bytes=_bytes(cells["memory.used"], "memory.used"),
        memory_total_bytes=_bytes(cells["memory.total"], "memory.total"),
        model=_text(cells["name"]),
        driver_version=_text(cells["driver_version"]),
        mig_enabled=_mig_enabled(cells.get("mig.mode.current", "[N/A]")),
        recovery_action=_recovery_action(cells.get("gpu_recovery_action", "[N/A]")),
    )


def _number(token: str, column: str) -> int | Unreadable:
    if _NUMBER.fullmatch(token):
        return int(token)
    if token in _TOKENS:
        return Unreadable(token)
    raise BadOutputError(f"nvidia-smi printed {token[:80]!r} for {column}: neither a plain number nor a known word")


def _bytes(token: str, column: str) -> int | Unreadable:
    number = _number(token, column)
    return number if isinstance(number, Unreadable) else number * _MIB


def _text(token: str) -> str | None:
    return None if token in _TOKENS or not token else token


def _mig_enabled(token: str) -> bool | Unreadable | None:
    if token in _NOT_SUPPORTED:
        return None
    if token in _TOKENS:
        return Unreadable(token)
    if token not in _MIG:
        raise BadOutputError(f"nvidia-smi printed {token[:80]!r} for mig.mode.current")
    return _MIG[token]


def _recovery_action(token: str) -> str | Unreadable | None:
    if token in _NOT_SUPPORTED:
        return None
    if token in _TOKENS:
        return Unreadable(token)
    if not _WORDS.fullmatch(token):
        raise BadOutputError(f"nvidia-smi printed {token[:80]!r} for gpu_recovery_action")
    return token


def _reading(first: GpuRow, processes: list[ProcessRow], second: GpuRow) -> GpuReading:
    """`graphics` None: this program cannot list them, so memory must be 0 MiB in both queries."""
    return GpuReading(
        index=first.index,
        uuid=first.uuid,
        utilization_percent=first.utilization_percent,
        memory_used_bytes=_larger(first.memory_used_bytes, second.memory_used_bytes),
        compute=_processes_of(first.uuid, processes),
        graphics=None,
        utilization_again_percent=second.utilization_percent,
        model=first.model,
        memory_total_bytes=_larger(first.memory_total_bytes, second.memory_total_bytes),
        mig_enabled=_worse_mig(first.mig_enabled, second.mig_enabled),
        recovery_action=second.recovery_action if first.recovery_action in (None, "None") else first.recovery_action,
    )


def _larger(first: int | Unreadable, second: int | Unreadable) -> int | Unreadable:
    if isinstance(first, Unreadable):
        return first
    return second if isinstance(second, Unreadable) else max(first, second)


def _worse_mig(first: bool | Unreadable | None, second: bool | Unreadable | None) -> bool | Unreadable | None:
    return first if first else second


def _processes_of(uuid: str, processes: list[ProcessRow]) -> tuple[ProcessReading, ...] | Unreadable:
    pids = [process.pid for process in processes if process.uuid == uuid]
    hidden = next((pid for pid in pids if isinstance(pid, Unreadable)), None)
    if hidden is not None:
        return hidden
    return tuple(ProcessReading(pid, ProcessKind.COMPUTE) for pid in pids if isinstance(pid, int))
