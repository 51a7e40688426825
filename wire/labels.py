"""Labels beside the verdict, for records and reports: never part of a decision, never a post by themselves."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from wire.messages import GpuWindow, Verdict
from wire.reasons import Reason, ReasonCode

LARGEST_BASELINE_BYTES = 64 * 1024 * 1024  # idle cards read up to about 60 MiB; more than that is somebody's
_SECONDS_PER_HOUR = 3600

_UNREADABLE = frozenset(
    {
        ReasonCode.UTILIZATION_UNREADABLE,
        ReasonCode.MEMORY_UNREADABLE,
        ReasonCode.PROCESSES_UNREADABLE,
        ReasonCode.MIG_UNREADABLE,
        ReasonCode.RECOVERY_ACTION_UNREADABLE,
    }
)
_SICK_WORDS = ("requires reset", "GPU is lost", "(NVML 15)", "(NVML 16)")  # as nvidia-smi and NVML say it


class Label(StrEnum):
    """What one window of one GPU looked like.

    HELD_IDLE: memory held and a process there, and no utilisation but that of our own canaries. BASELINE_ONLY: idle
    but for 1 byte to 64 MiB that nobody listed holds. ORPHAN_MEMORY: more than that, and nobody listed.
    GHOST_UTILIZATION: utilisation, no process and no memory. SICK: the driver asks for a recovery action or has lost
    the GPU.
    """

    HELD_IDLE = "held_idle"
    BASELINE_ONLY = "baseline_only"
    ORPHAN_MEMORY = "orphan_memory"
    GHOST_UTILIZATION = "ghost_utilization"
    SICK = "sick"


class LabelTotal(msgspec.Struct, frozen=True):
    """Windows of one label put together. Watts and watt-hours are None where no window read the power.

    `watt_hours` counts only the hours in which the power was read.
    """

    hours: float
    mean_watts: float | None
    watt_hours: float | None


def label_of(gpu: GpuWindow) -> Label | None:
    """The window's label; None for the usual: busy, free, or not judged for a reason that is no illness."""
    if any(_is_sick(reason) for reason in gpu.reasons):
        return Label.SICK
    if gpu.verdict is not Verdict.HELD:
        return None
    is_quiet = gpu.utilization_max_percent == 0 or gpu.only_canary_busy
    has_process = bool(gpu.processes or gpu.processes_cut)
    if has_process:
        return Label.HELD_IDLE if is_quiet and gpu.memory_max_bytes else None
    codes = {reason.code for reason in gpu.reasons}
    if codes == {ReasonCode.UTILIZATION} and gpu.memory_max_bytes == 0:
        return Label.GHOST_UTILIZATION
    return _of_memory(gpu, codes, is_quiet)


def _of_memory(gpu: GpuWindow, codes: set[ReasonCode], is_quiet: bool) -> Label | None:
    if ReasonCode.MEMORY_HELD not in codes or codes - {ReasonCode.MEMORY_HELD, ReasonCode.UTILIZATION}:
        return None
    if not gpu.memory_max_bytes:
        return None
    if gpu.memory_max_bytes > LARGEST_BASELINE_BYTES:
        return Label.ORPHAN_MEMORY
    return Label.BASELINE_ONLY if is_quiet and codes == {ReasonCode.MEMORY_HELD} else None


def _is_sick(reason: Reason) -> bool:
    if reason.code is ReasonCode.RECOVERY_ACTION:
        return True
    return reason.code in _UNREADABLE and any(word in reason.detail for word in _SICK_WORDS)


def totals(windows: Iterable[tuple[GpuWindow, float]]) -> dict[Label, LabelTotal]:
    """Hours and watts of every label that occurs in the windows, each given with its length in seconds."""
    by_label: dict[Label, list[tuple[GpuWindow, float]]] = {}
    for gpu, seconds in windows:
        if (label := label_of(gpu)) is not None:
            by_label.setdefault(label, []).append((gpu, seconds))
    return {label: _total(of_label) for label, of_label in by_label.items()}


def _total(windows: list[tuple[GpuWindow, float]]) -> LabelTotal:
    hours = sum(seconds for _, seconds in windows) / _SECONDS_PER_HOUR
    measured = [(gpu.power_mean_watts, seconds) for gpu, seconds in windows if gpu.power_mean_watts is not None]
    measured_hours = sum(seconds for _, seconds in measured) / _SECONDS_PER_HOUR
    if not measured_hours:
        return LabelTotal(hours, None, None)
    watt_hours = sum(watts * seconds for watts, seconds in measured) / _SECONDS_PER_HOUR
    return LabelTotal(hours, watt_hours / measured_hours, watt_hours)
