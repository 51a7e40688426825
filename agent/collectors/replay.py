"""The collector `replay`: recorded sweeps from a file, for tests, demos and somebody else's trouble."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent.reading import GpuReading, ProcessReading, ProcessView, Sweep
from wire.messages import ProcessKind

_MIB = 1024 * 1024

_decode = msgspec.json.Decoder(Sweep).decode


class BadRecordingError(Exception):
    """The recording cannot be used; the text names file and line."""


class ReplayCollector:
    """One line a sweep, from the first again after the last. A file that was changed is read anew from its first line.

    A line is a Sweep as JSON: {"gpus": [{"index": 0, "uuid": "GPU-…", "utilization_percent": 0, "memory_used_bytes": 0,
    "compute": [], "graphics": [], "utilization_again_percent": 0, …}], "driver_version": "…"} or {"error": "…"}; where
    a value was unreadable it holds {"type": "Unreadable", "why": "…"}. Empty lines and lines with # are left out.
    """

    name = "replay"

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._sweeps: Sequence[Sweep] = ()
        self._next = 0
        self._read_as: tuple[int, int, int] | None = None

    async def sweep(self) -> Sweep:
        if self._file is None:
            return Sweep(error="no recording is named: set agent.replay_file in the config")
        try:
            self._refresh(self._file)
        except OSError as error:
            return Sweep(error=f"the recording {self._file} cannot be read: {error.strerror}")
        except BadRecordingError as error:
            return Sweep(error=str(error))
        sweep = self._sweeps[self._next % len(self._sweeps)]
        self._next += 1
        return sweep

    async def let_go(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is held open."""

    def _refresh(self, file: Path) -> None:
        status = file.stat()
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        if version == self._read_as:
            return
        self._sweeps, self._next = read_recording(file), 0
        self._read_as = version


class FixtureCollector:
    """The documented example: three GPUs, of which exactly one is a candidate."""

    name = "fixture"

    async def sweep(self) -> Sweep:
        return FIXTURE

    async def let_go(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is held open."""


def read_recording(file: Path) -> list[Sweep]:
    """Raises OSError and BadRecordingError."""
    lines = file.read_bytes().splitlines()
    sweeps = [
        _sweep(line, file, number)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith(b"#")
    ]
    if not sweeps:
        raise BadRecordingError(f"{file}: the recording holds no sweep")
    return sweeps


def _sweep(line: bytes, file: Path, number: int) -> Sweep:
    """The process view of this host says nothing of a recording: without one of its own it was a good one."""
    try:
        sweep = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecordingError(f"{file}, line {number}: not a recorded sweep: {error}") from error
    return sweep if sweep.view is not None else msgspec.structs.replace(sweep, view=ProcessView())


def _fixture_gpu(index: int, letter: str, utilization_percent: int, used_bytes: int, pid: int | None) -> GpuReading:
    return GpuReading(
        index=index,
        uuid=f"GPU-{letter * 8}-{letter * 4}-{letter * 4}-{letter * 4}-{letter * 12}",
        utilization_percent=utilization_percent,
        memory_used_bytes=used_bytes,
        compute=() if pid is None else (ProcessReading(pid, ProcessKind.COMPUTE, used_bytes),),
        graphics=(),
        utilization_again_percent=utilization_percent,
        model="Example GPU",
        memory_total_bytes=80 * 1024 * _MIB,
    )


FIXTURE = Sweep(
    gpus=(
        _fixture_gpu(0, "a", 0, 0, None),
        _fixture_gpu(1, "b", 18, 4096 * _MIB, 4321),
        _fixture_gpu(2, "c", 0, 0, 9876),
    ),
    driver_version="example",
    view=ProcessView(),
)
