"""What the demo's GPUs read: sweeps in the recording format that the agent's collector `replay` plays."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent.reading import GpuReading, ProcessReading, Sweep
from wire.messages import ProcessKind

_GIB = 1024**3
MODEL = "NVIDIA H100 80GB HBM3"


def gpu(
    index: int, node: int, utilization_percent: int = 0, used_bytes: int = 0, pids: Sequence[int] = ()
) -> GpuReading:
    """One simulated GPU; idle unless something is said."""
    return GpuReading(
        index=index,
        uuid=f"GPU-{node:08d}-0000-4000-8000-{index:012d}",
        utilization_percent=utilization_percent,
        memory_used_bytes=used_bytes,
        compute=tuple(ProcessReading(pid, ProcessKind.COMPUTE, used_bytes) for pid in pids),
        graphics=(),
        utilization_again_percent=utilization_percent,
        model=MODEL,
        memory_total_bytes=80 * _GIB,
    )


def training(index: int, node: int) -> GpuReading:
    return gpu(index, node, 97, 61 * _GIB, [4321])


def parked(index: int, node: int, pid: int = 9876) -> GpuReading:
    """A process holds a context: 0 %, 0 MiB, and yet not free."""
    return gpu(index, node, pids=[pid])


def play(file: Path, *gpus: GpuReading) -> None:
    """From the next sample on the node reads these GPUs. By rename: the agent never reads half a file."""
    draft = file.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(Sweep(gpus=gpus, driver_version="simulated")) + b"\n")
    os.replace(draft, file)
