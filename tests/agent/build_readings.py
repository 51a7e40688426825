"""Builders for readings: an idle GPU, and a /proc of which only the agent's own part is there."""

from pathlib import Path
from typing import Any

from agent.collectors.host import INIT_PID_NAMESPACE
from agent.reading import GpuReading, ProcessReading, ProcessView, Sweep
from wire.messages import ProcessKind

GIB = 1024**3
MIB = 1024**2
MODEL = "NVIDIA H100 80GB HBM3"
DRIVER = "590.48.01"


def uuid_of(index: int) -> str:
    return f"GPU-{index:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def idle_gpu(index: int = 0, /, **changes: Any) -> GpuReading:
    """As `nvml` reads an idle H100 under a recent driver."""
    values: dict[str, Any] = {
        "index": index,
        "uuid": uuid_of(index),
        "utilization_percent": 0,
        "memory_used_bytes": 0,
        "compute": (),
        "graphics": (),
        "utilization_again_percent": 0,
        "model": MODEL,
        "memory_total_bytes": 80 * GIB,
        "recent_peak_percent": 0,
        "mig_enabled": False,
        "recovery_action": "None",
    }
    return GpuReading(**{**values, **changes})


def sweep_of(*gpus: GpuReading) -> Sweep:
    return Sweep(gpus, driver_version=DRIVER)


def compute(*pids: int) -> tuple[ProcessReading, ...]:
    return tuple(ProcessReading(pid, ProcessKind.COMPUTE, 0) for pid in pids)


def graphics(*pids: int) -> tuple[ProcessReading, ...]:
    return tuple(ProcessReading(pid, ProcessKind.GRAPHICS, 0) for pid in pids)


GOOD_VIEW = ProcessView()


def host_proc(folder: Path, namespace: str = INIT_PID_NAMESPACE, maps: str = "") -> Path:
    """A /proc as the agent on a host sees it."""
    proc = folder / "proc"
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to(namespace)
    (proc / "self/maps").write_text(maps)
    return proc
