"""Builders for samples, as the rule gives them."""

from datetime import UTC, datetime
from typing import Any

from agent.observe import ClosedWindow, GpuName, OpenWindow
from agent.verdicts import GpuSample, Sample
from tests.build import BOOT, gpu_uuid
from wire.messages import Process, Verdict
from wire.reasons import Reason, ReasonCode

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MODEL = "NVIDIA L4"


def gpu(index: int = 0, verdict: Verdict = Verdict.CANDIDATE, *reasons: Reason, **changes: Any) -> GpuSample:
    values: dict[str, Any] = {"model": MODEL, "utilization_percent": 0, "memory_used_bytes": 0, "processes": ()}
    reasons = reasons or (Reason(ReasonCode.ALL_IDLE),)
    return GpuSample(index=index, uuid=gpu_uuid(index), verdict=verdict, reasons=reasons, **{**values, **changes})


def idle(index: int = 0) -> GpuSample:
    return gpu(index)


def held(index: int = 0, percent: int = 50, **changes: Any) -> GpuSample:
    why = Reason(ReasonCode.UTILIZATION, str(percent))
    return gpu(index, Verdict.HELD, why, **{"utilization_percent": percent, **changes})


def unknown(index: int = 0, why: str = "[N/A]") -> GpuSample:
    reason = Reason(ReasonCode.UTILIZATION_UNREADABLE, why)
    return gpu(index, Verdict.UNKNOWN, reason, utilization_percent=None, memory_used_bytes=None, processes=None)


def sample(*gpus: GpuSample) -> Sample:
    return Sample(gpus or (idle(),))


def error(why: str = "hangs", *gpus: int) -> Sample:
    reason = Reason(ReasonCode.SAMPLE_ERROR, why)
    blind = {"utilization_percent": None, "memory_used_bytes": None, "processes": None}
    return Sample(tuple(gpu(index, Verdict.UNKNOWN, reason, **blind) for index in gpus), (reason,))


def window(number: int = 7, **changes: Any) -> OpenWindow:
    values: dict[str, Any] = {"boot_id": BOOT, "number": number, "window_seconds": 300.0, "started_at": NOON}
    return OpenWindow(**{**values, **changes})


def closed(*samples: Sample, cut: bool = False, expected: int = 30, gpus: tuple[int, ...] = ()) -> ClosedWindow:
    names = tuple(GpuName(index, gpu_uuid(index), MODEL) for index in gpus)
    return ClosedWindow(window(gpus=names), NOON, samples, expected, cut)


def process(pid: int, **changes: Any) -> Process:
    return Process(pid, **changes)
