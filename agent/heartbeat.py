"""Builds the heartbeat: what the node is like now, complete by itself and small enough to send."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from agent.observe import Latest, OpenWindow, Reporter
from agent.verdicts import GpuSample
from wire.messages import (
    KEPT_PROCESSES,
    MAX_MESSAGE_BYTES,
    VERSION,
    GpuNow,
    Heartbeat,
    Process,
    encode,
    without_place,
)
from wire.remedies import NodeRemedies
from wire.ticks import Tick


def heartbeat(
    reporter: Reporter,
    window: OpenWindow,
    latest: Latest | None,
    *,
    spool_epoch: str,
    last_seq: int,
    now_seconds: float,
    sent_at: datetime,
    runners: Sequence[Tick] = (),
    order_key: str = "",
    remedies: NodeRemedies | None = None,
) -> Heartbeat:
    """`now_seconds` is the time since boot. Without a sample there are no GPUs in it yet."""
    age_seconds = 0.0 if latest is None else max(0.0, now_seconds - latest.began_seconds)
    built = Heartbeat(
        version=VERSION,
        node=reporter.node,
        boot_id=window.boot_id,
        spool_epoch=spool_epoch,
        last_seq=last_seq,
        sent_at=sent_at,
        agent_version=reporter.agent_version,
        window_seconds=window.window_seconds,
        gpus=[] if latest is None else [_gpu_now(gpu, age_seconds) for gpu in latest.sample.gpus],
        last_closed_window=window.last_closed,
        errors=[] if latest is None else list(latest.sample.errors),
        runners=list(runners),
        order_key=order_key,
        remedies=remedies,
        uptime_seconds=now_seconds,
        collector=reporter.collector,
    )
    return built if len(encode(built)) <= MAX_MESSAGE_BYTES else _with_fewer_processes(built)


def _gpu_now(gpu: GpuSample, age_seconds: float) -> GpuNow:
    processes = None if gpu.processes is None else [_bare(process) for process in gpu.processes]
    reasons = list(gpu.reasons)
    return GpuNow(
        gpu.index, gpu.uuid, gpu.verdict, reasons, age_seconds, processes, gpu.allocation, unlisted=gpu.unlisted
    )


def _bare(process: Process) -> Process:
    """PID, start and user: what a heartbeat is asked for, and what an order names."""
    return replace(without_place(process), command=None)


def _with_fewer_processes(beat: Heartbeat) -> Heartbeat:
    return replace(beat, gpus=[_with_few(gpu) for gpu in beat.gpus])


def _with_few(gpu: GpuNow) -> GpuNow:
    if gpu.processes is None:
        return gpu
    kept = gpu.processes[:KEPT_PROCESSES]
    return replace(gpu, processes=kept, processes_cut=len(gpu.processes) - len(kept))
