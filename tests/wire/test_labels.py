"""Labels of windows: held idle, baseline only, orphan memory, ghost utilisation, sick; with hours and watts."""

import pytest
from msgspec.structs import replace

from tests.build import gpu_window
from wire.labels import Label, LabelTotal, label_of, totals
from wire.messages import GpuWindow, Process, Verdict
from wire.reasons import Reason, ReasonCode

MIB = 1 << 20
MEMORY = Reason(ReasonCode.MEMORY_HELD, "1")
BUSY = Reason(ReasonCode.UTILIZATION, "5")
LISTED = Reason(ReasonCode.COMPUTE_PROCESS, "7")


def held(memory: int | None, *reasons: Reason, utilization: int | None = 0, listed: bool = False) -> GpuWindow:
    return gpu_window(
        Verdict.HELD,
        reasons=list(reasons),
        memory_max_bytes=memory,
        utilization_max_percent=utilization,
        processes=[Process(7)] if listed else [],
    )


def held_by_canary() -> GpuWindow:
    return replace(held(40 * MIB, MEMORY, BUSY, LISTED, utilization=5, listed=True), only_canary_busy=True)


def unknown(*reasons: Reason) -> GpuWindow:
    return gpu_window(Verdict.UNKNOWN, reasons=list(reasons))


CASES = [
    ("free", gpu_window(), None),
    ("busy", held(MIB, MEMORY, BUSY, LISTED, utilization=5, listed=True), None),
    ("a model that nobody asks", held(40 * MIB, MEMORY, LISTED, listed=True), Label.HELD_IDLE),
    ("a model that only we ask", held_by_canary(), Label.HELD_IDLE),
    ("a process without memory", held(0, LISTED, listed=True), None),
    ("held, utilisation not read", held(MIB, MEMORY, LISTED, utilization=None, listed=True), None),
    ("an idle card's own bytes", held(4 * MIB, MEMORY), Label.BASELINE_ONLY),
    ("the largest such", held(64 * MIB, MEMORY), Label.BASELINE_ONLY),
    ("one byte more", held(64 * MIB + 1, MEMORY), Label.ORPHAN_MEMORY),
    ("orphan memory that works", held(900 * MIB, MEMORY, BUSY, utilization=5), Label.ORPHAN_MEMORY),
    ("a little memory, and busy", held(4 * MIB, MEMORY, BUSY, utilization=5), None),
    ("latched utilisation", held(0, BUSY, utilization=100), Label.GHOST_UTILIZATION),
    ("utilisation, memory not read", held(None, BUSY, utilization=100), None),
    ("memory held, but how much is not known", held(None, MEMORY), None),
    ("memory beside a hidden list", held(MIB, MEMORY, Reason(ReasonCode.PROCESSES_UNREADABLE, "x")), None),
    ("only cut processes", gpu_window(Verdict.HELD, processes=[], processes_cut=3), Label.HELD_IDLE),
    ("not judged", unknown(Reason(ReasonCode.TOO_FEW_SAMPLES, "1 of 30")), None),
    ("no permission", unknown(Reason(ReasonCode.PROCESSES_UNREADABLE, "No Permission (NVML 4)")), None),
    ("a recovery action", unknown(Reason(ReasonCode.RECOVERY_ACTION, "Reset")), Label.SICK),
    ("nvidia-smi's word", unknown(Reason(ReasonCode.UTILIZATION_UNREADABLE, "[GPU requires reset]")), Label.SICK),
    ("off the bus", unknown(Reason(ReasonCode.MEMORY_UNREADABLE, "GPU is lost (NVML 15)")), Label.SICK),
    ("sick and busy before", held(MIB, Reason(ReasonCode.RECOVERY_ACTION, "Reboot"), MEMORY), Label.SICK),
]


@pytest.mark.parametrize(("gpu", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_window_has_the_label_of_what_it_looked_like(gpu: GpuWindow, expected: Label | None) -> None:
    assert label_of(gpu) is expected


def with_watts(watts: float | None) -> GpuWindow:
    gpu = CASES[2][1]
    return gpu_window(
        Verdict.HELD,
        reasons=gpu.reasons,
        memory_max_bytes=gpu.memory_max_bytes,
        processes=gpu.processes,
        power_mean_watts=watts,
    )


def test_hours_and_watts_are_put_together_by_label_and_what_was_not_measured_counts_no_watts() -> None:
    windows = [(with_watts(60.0), 3600.0), (with_watts(90.0), 7200.0), (with_watts(None), 3600.0)]
    windows += [(gpu_window(), 300.0), (held(4 * MIB, MEMORY), 1800.0)]
    assert totals(windows) == {
        Label.HELD_IDLE: LabelTotal(hours=4.0, mean_watts=80.0, watt_hours=240.0),
        Label.BASELINE_ONLY: LabelTotal(hours=0.5, mean_watts=None, watt_hours=None),
    }


def test_without_windows_there_are_no_totals() -> None:
    assert totals([]) == {}
