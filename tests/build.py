"""Builders: valid values with as little as possible to say."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from wire.messages import GpuNow, GpuWindow, Heartbeat, Observation, Process, Verdict
from wire.reasons import Reason, ReasonCode

START = datetime(2026, 11, 30, 0, 0, tzinfo=UTC)
BOOT = "b0000000-0000-4000-8000-000000000001"
OTHER_BOOT = "b0000000-0000-4000-8000-000000000002"
EPOCH = "0123456789abcdef0123456789abcdef"
WINDOW_SECONDS = 300.0
FIRST_WINDOW = 1000


def gpu_uuid(index: int) -> str:
    return f"GPU-{index:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


_REASONS = {
    Verdict.CANDIDATE: [Reason(ReasonCode.ALL_IDLE)],
    Verdict.HELD: [Reason(ReasonCode.MEMORY_HELD, "4294967296")],
    Verdict.UNKNOWN: [Reason(ReasonCode.TOO_FEW_SAMPLES, "12 of 30")],
}


def gpu_window(verdict: Verdict = Verdict.CANDIDATE, index: int = 0, **changes: object) -> GpuWindow:
    held = verdict is Verdict.HELD
    values: dict[str, object] = {
        "index": index,
        "uuid": gpu_uuid(index),
        "verdict": verdict,
        "reasons": _REASONS[verdict],
        "samples": 30,
        "expected_samples": 30,
        "model": "NVIDIA H100 80GB HBM3",
        "utilization_max_percent": 0,
        "memory_max_bytes": 4294967296 if held else 0,
        "processes": [Process(4321, user="alice", command="python train.py")] if held else [],
    }
    return GpuWindow(**{**values, **changes})


def observation(
    number: int = FIRST_WINDOW,
    verdicts: Sequence[Verdict] = (Verdict.CANDIDATE,),
    *,
    node: str = "gpu-01",
    seq: int | None = None,
    **changes: object,
) -> Observation:
    """One node window; `seq` follows the window number unless it is given, GPUs are numbered from 0."""
    seconds = changes.get("window_seconds", WINDOW_SECONDS)
    closed_at = START + timedelta(seconds=seconds * (number - FIRST_WINDOW + 1))
    values: dict[str, object] = {
        "version": 1,
        "node": node,
        "boot_id": BOOT,
        "spool_epoch": EPOCH,
        "seq": number - FIRST_WINDOW + 1 if seq is None else seq,
        "window_number": number,
        "window_seconds": seconds,
        "started_at": closed_at - timedelta(seconds=seconds),
        "closed_at": closed_at,
        "agent_version": "0.1.0",
        "collector": "nvml",
        "gpus": [gpu_window(verdict, index) for index, verdict in enumerate(verdicts)],
    }
    return Observation(**{**values, **changes})


def heartbeat(
    last_closed_window: int | None,
    verdicts: Sequence[Verdict] = (Verdict.CANDIDATE,),
    *,
    node: str = "gpu-01",
    age_seconds: float = 3.0,
    **changes: object,
) -> Heartbeat:
    values: dict[str, object] = {
        "version": 1,
        "node": node,
        "boot_id": BOOT,
        "spool_epoch": EPOCH,
        "last_seq": 0 if last_closed_window is None else last_closed_window - FIRST_WINDOW + 1,
        "sent_at": START,
        "agent_version": "0.1.0",
        "window_seconds": WINDOW_SECONDS,
        "last_closed_window": last_closed_window,
        "gpus": [
            GpuNow(index, gpu_uuid(index), verdict, _REASONS[verdict], age_seconds, [])
            for index, verdict in enumerate(verdicts)
        ],
    }
    return Heartbeat(**{**values, **changes})
