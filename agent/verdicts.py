"""From one sweep to one verdict for each GPU: candidate, held or unknown, always with reasons."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from agent.reading import Baseline, GpuReading, KnownGpu, ProcessReading, ProcessView, Sweep, Unreadable
from wire.messages import Allocation, Process, Verdict
from wire.reasons import Reason, ReasonCode, in_english

LARGEST_BASELINE_BYTES = 64 * 1024 * 1024
PIDS = range(1, 4194304 + 1)  # the kernel's PID_MAX_LIMIT; drivers 535.43 to 535.86 give impossible ones
SHOWN_PIDS = 8
NO_GRAPHICS = "its collector cannot list graphics processes"

_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


class RuleSettings(msgspec.Struct, frozen=True):
    """What an operator may loosen, and nothing else."""

    ignore_graphics: frozenset[str] = frozenset()
    baseline: Baseline = Baseline()


class GpuSample(msgspec.Struct, frozen=True):
    """One GPU in one sample.

    `utilization_percent` is the highest of the sample's readings, recent peak included. None: not readable. Power and
    allocation have no part in the verdict; `allocation` None: nothing that allocates GPUs runs on this node.
    `beside_canary`: a test request of our own to the GPU's runner was on its way; no part in the verdict either.
    `unlisted`: why there may be processes that are not in `processes`; for a verdict memory shows those.
    """

    index: int
    uuid: str
    model: str | None
    verdict: Verdict
    reasons: tuple[Reason, ...]
    utilization_percent: int | None
    memory_used_bytes: int | None
    processes: tuple[Process, ...] | None
    power_milliwatts: int | None = None
    allocation: Allocation | None = None
    beside_canary: bool = False
    unlisted: str = ""


class Sample(msgspec.Struct, frozen=True):
    """One sample of the node. With errors nothing is concluded: `gpus` are the known ones, each unknown."""

    gpus: tuple[GpuSample, ...]
    errors: tuple[Reason, ...] = ()


def judge_sweep(sweep: Sweep, view: ProcessView, known: Mapping[str, KnownGpu], settings: RuleSettings) -> Sample:
    """A verdict for every GPU of the sweep, or errors for the sample as a whole."""
    errors = _sample_errors(sweep, view) or _missing_gpus(sweep, known)
    if errors:
        return failed_sample(errors, known)
    circumstances = _Circumstances(view, settings, sweep.driver_version)
    gpus = sorted(sweep.gpus, key=lambda gpu: gpu.index)
    return Sample(tuple(_judge_gpu(gpu, circumstances) for gpu in gpus))


def failed_sample(errors: tuple[Reason, ...], known: Mapping[str, KnownGpu]) -> Sample:
    """The sample of which nothing can be concluded."""
    first = errors[0]
    is_plain = first.code in (ReasonCode.SAMPLE_ERROR, ReasonCode.RELEASED)
    why = (first if is_plain else Reason(ReasonCode.SAMPLE_ERROR, in_english(first)),)
    in_order = sorted(known.items(), key=lambda item: (item[1].index, item[0]))
    unknown = (GpuSample(gpu.index, uuid, gpu.model, Verdict.UNKNOWN, why, None, None, None) for uuid, gpu in in_order)
    return Sample(tuple(unknown), errors)


def _sample_errors(sweep: Sweep, view: ProcessView) -> tuple[Reason, ...]:
    if sweep.released is not None:
        return (Reason(ReasonCode.RELEASED, sweep.released),)
    details = (
        [detail for detail in (view.error, sweep.error) if detail is not None]
        or list(_wrong_enumeration(sweep.gpus))
        or [detail for gpu in sweep.gpus for detail in _impossible_values(gpu)]
    )
    return tuple(Reason(ReasonCode.SAMPLE_ERROR, detail) for detail in dict.fromkeys(details))


def _wrong_enumeration(gpus: tuple[GpuReading, ...]) -> Iterator[str]:
    if not gpus:
        yield "the driver answered, but listed no GPU"
    for gpu in gpus:
        if _UUID.fullmatch(gpu.uuid) is None:
            yield f"GPU {gpu.index} has the malformed UUID {gpu.uuid[:80]!r}"
    for uuid, times in Counter(gpu.uuid for gpu in gpus).items():
        if times > 1:
            yield f"the UUID {uuid[:80]} is listed {times} times"
    indexes = sorted(gpu.index for gpu in gpus)
    if indexes != list(range(len(gpus))):
        yield f"the GPU indexes are not 0 to {len(gpus) - 1} without a gap: {indexes}"


def _impossible_values(gpu: GpuReading) -> Iterator[str]:
    for percent in (gpu.utilization_percent, gpu.utilization_again_percent, gpu.recent_peak_percent):
        if isinstance(percent, int) and not 0 <= percent <= 100:
            yield f"GPU {gpu.index} reads the impossible utilisation {percent} %"
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    if isinstance(total, int) and total <= 0:
        yield f"GPU {gpu.index} reads {total} bytes of memory in total"
    elif isinstance(used, int) and (used < 0 or (isinstance(total, int) and used > total)):
        yield f"GPU {gpu.index} reads {used} bytes of memory used of {total}"


def _missing_gpus(sweep: Sweep, known: Mapping[str, KnownGpu]) -> tuple[Reason, ...]:
    present = {gpu.uuid for gpu in sweep.gpus}
    missing = sorted((gpu.index, uuid, gpu.model) for uuid, gpu in known.items() if uuid not in present)
    return tuple(
        Reason(ReasonCode.GPU_MISSING, f"{uuid} (was index {index}, {model or 'model not known'})")
        for index, uuid, model in missing
    )


class _Circumstances(msgspec.Struct, frozen=True):
    view: ProcessView
    settings: RuleSettings
    driver_version: str | None


Finding = tuple[Verdict, Reason]
Rule = Callable[[GpuReading, _Circumstances], Iterator[Finding]]


def _unknown(code: ReasonCode, detail: str = "") -> Finding:
    return Verdict.UNKNOWN, Reason(code, detail)


def _held(code: ReasonCode, detail: str) -> Finding:
    return Verdict.HELD, Reason(code, detail)


def _by_process_view(_gpu: GpuReading, circumstances: _Circumstances) -> Iterator[Finding]:
    for obstacle in circumstances.view.obstacles:
        yield _unknown(ReasonCode.PROCESS_VIEW, obstacle)


def _by_mig(gpu: GpuReading, _circumstances: _Circumstances) -> Iterator[Finding]:
    if isinstance(gpu.mig_enabled, Unreadable):
        yield _unknown(ReasonCode.MIG_UNREADABLE, gpu.mig_enabled.why)
    elif gpu.mig_enabled:
        yield _unknown(ReasonCode.MIG_ENABLED)


def _by_recovery_action(gpu: GpuReading, _circumstances: _Circumstances) -> Iterator[Finding]:
    if isinstance(gpu.recovery_action, Unreadable):
        yield _unknown(ReasonCode.RECOVERY_ACTION_UNREADABLE, gpu.recovery_action.why)
    elif gpu.recovery_action not in (None, "None"):
        yield _unknown(ReasonCode.RECOVERY_ACTION, gpu.recovery_action)


def _by_utilization(gpu: GpuReading, _circumstances: _Circumstances) -> Iterator[Finding]:
    unreadable = [value for value in _utilization_readings(gpu) if isinstance(value, Unreadable)]
    if unreadable:
        yield _unknown(ReasonCode.UTILIZATION_UNREADABLE, unreadable[0].why)
    if highest := _highest_utilization(gpu):
        yield _held(ReasonCode.UTILIZATION, str(highest))


def _by_memory(gpu: GpuReading, circumstances: _Circumstances) -> Iterator[Finding]:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    if isinstance(used, Unreadable):
        yield _unknown(ReasonCode.MEMORY_UNREADABLE, used.why)
    elif not (used == 0 or _is_baseline(gpu, used, circumstances)):
        yield _held(ReasonCode.MEMORY_HELD, str(used))
    if isinstance(total, Unreadable) and not isinstance(used, Unreadable):
        yield _unknown(ReasonCode.MEMORY_UNREADABLE, f"{total.why} (the total)")


def _by_compute_processes(gpu: GpuReading, _circumstances: _Circumstances) -> Iterator[Finding]:
    processes = _sound(gpu.compute)
    if isinstance(processes, Unreadable):
        yield _unknown(ReasonCode.PROCESSES_UNREADABLE, processes.why)
    elif processes:
        yield _held(ReasonCode.COMPUTE_PROCESS, _pids(processes))


def _by_graphics_processes(gpu: GpuReading, circumstances: _Circumstances) -> Iterator[Finding]:
    if gpu.graphics is None:
        return
    processes = _sound(gpu.graphics)
    if isinstance(processes, Unreadable):
        yield _unknown(ReasonCode.PROCESSES_UNREADABLE, f"{processes.why} (graphics)")
        return
    programs, ignored = circumstances.view.programs, circumstances.settings.ignore_graphics
    counted = tuple(process for process in processes if programs.get(process.pid) not in ignored)
    if counted:
        yield _held(ReasonCode.GRAPHICS_PROCESS, _pids(counted))


RULES: tuple[Rule, ...] = (
    _by_process_view,
    _by_mig,
    _by_recovery_action,
    _by_utilization,
    _by_memory,
    _by_compute_processes,
    _by_graphics_processes,
)


def _judge_gpu(gpu: GpuReading, circumstances: _Circumstances) -> GpuSample:
    findings = [finding for rule in RULES for finding in rule(gpu, circumstances)]
    verdict, reasons = _conclude(findings)
    return GpuSample(
        index=gpu.index,
        uuid=gpu.uuid,
        model=gpu.model,
        verdict=verdict,
        reasons=reasons,
        utilization_percent=_highest_utilization(gpu),
        memory_used_bytes=None if isinstance(gpu.memory_used_bytes, Unreadable) else gpu.memory_used_bytes,
        processes=_listed_processes(gpu),
        power_milliwatts=gpu.power_milliwatts,
        unlisted=NO_GRAPHICS if gpu.graphics is None else "",
    )


def _conclude(findings: list[Finding]) -> tuple[Verdict, tuple[Reason, ...]]:
    """Unknown beats held, held beats candidate; the reasons of the verdict come first."""
    if not findings:
        return Verdict.CANDIDATE, (Reason(ReasonCode.ALL_IDLE),)
    unknown = tuple(reason for verdict, reason in findings if verdict is Verdict.UNKNOWN)
    held = tuple(reason for verdict, reason in findings if verdict is Verdict.HELD)
    return (Verdict.UNKNOWN if unknown else Verdict.HELD), unknown + held


def _utilization_readings(gpu: GpuReading) -> tuple[int | Unreadable | None, ...]:
    return gpu.utilization_percent, gpu.utilization_again_percent, gpu.recent_peak_percent


def _highest_utilization(gpu: GpuReading) -> int | None:
    return max((value for value in _utilization_readings(gpu) if isinstance(value, int)), default=None)


def _is_baseline(gpu: GpuReading, used_bytes: int, circumstances: _Circumstances) -> bool:
    """Where graphics processes cannot be listed, memory is all that shows them: then there is no baseline."""
    baseline = circumstances.settings.baseline
    if gpu.graphics is None or gpu.model is None or baseline.driver is None:
        return False
    if baseline.driver != circumstances.driver_version or used_bytes > LARGEST_BASELINE_BYTES:
        return False
    return baseline.bytes_by_model.get(gpu.model) == used_bytes


def _sound(processes: tuple[ProcessReading, ...] | Unreadable) -> tuple[ProcessReading, ...] | Unreadable:
    """A list with a PID that cannot be was misread as a whole, and proves nothing."""
    if isinstance(processes, Unreadable):
        return processes
    wrong = next((process.pid for process in processes if process.pid not in PIDS), None)
    return processes if wrong is None else Unreadable(f"the driver lists the impossible PID {wrong}")


def _pids(processes: tuple[ProcessReading, ...]) -> str:
    pids = sorted({process.pid for process in processes})
    more = f" and {len(pids) - SHOWN_PIDS} more" if len(pids) > SHOWN_PIDS else ""
    return ", ".join(map(str, pids[:SHOWN_PIDS])) + more


def _listed_processes(gpu: GpuReading) -> tuple[Process, ...] | None:
    compute = _sound(gpu.compute)
    graphics = () if gpu.graphics is None else _sound(gpu.graphics)
    if isinstance(compute, Unreadable) or isinstance(graphics, Unreadable):
        return None
    distinct = {(process.pid, process.kind): process for process in (*compute, *graphics)}
    return tuple(Process(process.pid, process.kind, process.used_memory_bytes) for process in distinct.values())
