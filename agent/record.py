"""The node's own record: one JSON line per GPU and window, in files that rotate."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from wire.labels import Label, label_of
from wire.messages import Allocation, Observation, Process, Verdict
from wire.reasons import Reason

FILE_NAME = "windows.jsonl"


class RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU over one window; without a GPU (`uuid` None) when none is known. None means not read, never 0."""

    time: datetime
    node: str
    boot_id: str
    window: int
    verdict: Verdict
    reasons: list[Reason]
    gpu: int | None = None
    uuid: str | None = None
    utilization_max_percent: int | None = None
    memory_max_bytes: int | None = None
    processes: list[Process] = []
    power_mean_watts: float | None = None
    allocation: Allocation | None = None
    label: Label | None = None


class Record:
    """`windows.jsonl` and, older and older, `windows.jsonl.1` and so on: `files` in all, each about `max_bytes`."""

    def __init__(self, state_dir: Path, max_bytes: int, files: int) -> None:
        self.path = state_dir / FILE_NAME
        self._max_bytes = max_bytes
        self._files = files

    def write(self, observation: Observation) -> None:
        """Blocks on the disk; raises OSError."""
        text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines(observation))
        if self._size_bytes() + len(text) > self._max_bytes:
            self._rotate()
        with self.path.open("ab") as file:
            if file.tell() and not self._ends_with_newline():
                text = b"\n" + text  # a line that was cut by a crash stays alone
            file.write(text)

    def _size_bytes(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _rotate(self) -> None:
        names = [self.path, *(self.path.with_name(f"{FILE_NAME}.{number}") for number in range(1, self._files))]
        names[-1].unlink(missing_ok=True)
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)


def lines(observation: Observation) -> Iterator[RecordLine]:
    time, node, boot_id = observation.closed_at, observation.node, observation.boot_id
    for gpu in observation.gpus:
        yield RecordLine(
            time=time,
            node=node,
            boot_id=boot_id,
            window=observation.window_number,
            verdict=gpu.verdict,
            reasons=gpu.reasons,
            gpu=gpu.index,
            uuid=gpu.uuid,
            utilization_max_percent=gpu.utilization_max_percent,
            memory_max_bytes=gpu.memory_max_bytes,
            processes=gpu.processes,
            power_mean_watts=gpu.power_mean_watts,
            allocation=gpu.allocation,
            label=label_of(gpu),
        )
    if not observation.gpus:
        yield RecordLine(time, node, boot_id, observation.window_number, Verdict.UNKNOWN, observation.errors)
