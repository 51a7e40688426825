"""What `check` finds: what is read, from where, what stands in the way, and what to do."""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from agent import advice
from agent.reading import Baseline, GpuReading, KnownGpu, ProcessView, Sweep
from agent.verdicts import LARGEST_BASELINE_BYTES, GpuSample, Sample
from wire.messages import Allocation, AllocationState, Verdict
from wire.reasons import ReasonCode, in_english

_PROCESS_VIEW_TODO = f"{advice.READINGS_PAGE} says how, for Docker, Kubernetes, LXC and VMs; until then all is unknown"
SLOW_SWEEP_SECONDS = 3.0  # a sweep takes milliseconds where the driver stays loaded


_MISSING_TODO = "if the card was really taken out: gpu-oncall-agent accept-gpus; else look at its seat and at dmesg"


class Level(StrEnum):
    OK = "ok"
    ADVICE = "advice"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """`text` says what was found; `todo` what a person should do next, "" where there is nothing."""

    level: Level
    topic: str
    text: str
    todo: str = ""

    @property
    def why(self) -> str:
        """Why it matters."""
        return advice.why(self.topic)


def about_process_view(view: ProcessView) -> Iterator[Finding]:
    if view.error is not None:
        yield Finding(Level.PROBLEM, "process view", view.error, _PROCESS_VIEW_TODO)
    for obstacle in view.obstacles:
        yield Finding(Level.PROBLEM, "process view", obstacle, _PROCESS_VIEW_TODO)
    if view.error is None and not view.obstacles:
        yield Finding(Level.OK, "process view", "the driver's list of processes is complete here")


def about_reading(collector: str, sweep: Sweep, took_seconds: float) -> Iterator[Finding]:
    if sweep.error is not None:
        todo = f"when that is put right, run check again; {advice.READINGS_PAGE} has the usual causes"
        yield Finding(Level.PROBLEM, "collector", f"{collector}: {sweep.error}", todo)
        return
    driver = sweep.driver_version or "of unknown version"
    yield Finding(
        Level.OK, "collector", f"{collector}: {len(sweep.gpus)} GPUs read in {took_seconds:.1f} s, driver {driver}"
    )
    if took_seconds > SLOW_SWEEP_SECONDS:
        yield Finding(
            Level.ADVICE,
            "collector",
            f"one reading took {took_seconds:.1f} s: the driver may be loading itself anew each time",
            "turn on persistence mode (systemctl enable --now nvidia-persistenced)",
        )


def about_gpus(sweep: Sweep, sample: Sample) -> Iterator[Finding]:
    for error in sample.errors:
        if sweep.error is not None and error.detail == sweep.error:
            continue  # said by the collector
        is_missing = error.code is ReasonCode.GPU_MISSING
        todo = (
            _MISSING_TODO if is_missing else "see what nvidia-smi says of it; gpu-oncall-agent capture keeps it for us"
        )
        yield Finding(Level.PROBLEM, "sample", in_english(error), todo)
    if not sample.errors:
        yield from (_about_gpu(gpu) for gpu in sample.gpus)


def _about_gpu(gpu: GpuSample) -> Finding:
    level = Level.PROBLEM if gpu.verdict is Verdict.UNKNOWN else Level.OK
    reasons = "; ".join(in_english(reason) for reason in gpu.reasons)
    todo = advice.what_to_do([reason.code for reason in gpu.reasons]) if level is Level.PROBLEM else ""
    text = f"{gpu.verdict.value} - {reasons} ({gpu.model or 'no model name'}, {gpu.uuid})"
    return Finding(level, f"GPU {gpu.index}", text, todo)


def about_allocation(allocations: Mapping[str, Allocation]) -> Finding:
    """Of all GPUs of the node; empty where nothing that allocates runs."""
    if not allocations:
        return Finding(Level.OK, "allocation", "no kubelet and no Slurm runs on this node")
    blind = next((one for one in allocations.values() if one.state is AllocationState.UNREADABLE), None)
    if blind is not None:
        todo = f"until it can be read no idle GPU is announced: {advice.READINGS_PAGE}"
        return Finding(Level.PROBLEM, "allocation", f"it cannot be read what is given away: {blind.detail}", todo)
    given = sorted({one.detail for one in allocations.values() if one.state is AllocationState.ALLOCATED})
    shown = f", to {'; '.join(given[:4])}" if given else ""
    count = sum(one.state is AllocationState.ALLOCATED for one in allocations.values())
    return Finding(Level.OK, "allocation", f"{count} of {len(allocations)} GPUs are given away{shown}")


def about_owners(hidden: str | None) -> Finding:
    """`hidden`: what keeps the agent from seeing whose a process is."""
    if hidden is None:
        return Finding(Level.OK, "owners", "user, container, pod and Slurm job of a process can be read")
    return Finding(Level.ADVICE, "owners", hidden, f"{advice.READINGS_PAGE}: root, the host's processes and cgroups")


def about_kernel_log(why_unreadable: str | None) -> Finding:
    """Only told where runners are watched."""
    if why_unreadable is None:
        return Finding(Level.OK, "kernel log", "it can be read, so the driver's Xid messages are seen")
    text = f"it cannot be read, so Xid messages are not seen: {why_unreadable}"
    todo = "give the agent's user CAP_SYSLOG (AmbientCapabilities=CAP_SYSLOG in its unit) or the group systemd-journal"
    return Finding(Level.ADVICE, "kernel log", text, todo)


def about_known_gpus(known: Mapping[str, KnownGpu]) -> Finding:
    if known:
        return Finding(Level.OK, "known GPUs", f"this node had {len(known)} GPUs before")
    return Finding(Level.OK, "known GPUs", "none are kept yet: the first good sample of `run` keeps them")


def about_baseline(baseline: Baseline, sweep: Sweep, sample: Sample) -> Iterator[Finding]:
    """Where memory is the only thing that keeps GPUs from being idle: their exact bytes, and the line to add."""
    if baseline.bytes_by_model and baseline.driver != sweep.driver_version and sweep.error is None:
        yield Finding(
            Level.ADVICE,
            "idle memory",
            f"idle_memory_bytes is void: measured under driver {baseline.driver}, this is {sweep.driver_version}",
            "measure it anew on an idle node, or take it out of the config",
        )
    quiet = [gpu for gpu, judged in zip(_in_order(sweep), sample.gpus, strict=False) if _only_memory_holds(judged)]
    if sample.errors or not quiet:
        return
    if any(gpu.graphics is None for gpu in quiet):
        yield Finding(
            Level.ADVICE,
            "idle memory",
            "GPUs are idle but for some memory, and this collector cannot list graphics processes",
            "use collector: nvml, which can",
        )
        return
    yield from _suggested_lines(quiet, sweep.driver_version)


def _in_order(sweep: Sweep) -> list[GpuReading]:
    return sorted(sweep.gpus, key=lambda gpu: gpu.index)


def _only_memory_holds(gpu: GpuSample) -> bool:
    codes = [reason.code for reason in gpu.reasons]
    return codes == [ReasonCode.MEMORY_HELD] and 0 < (gpu.memory_used_bytes or 0) <= LARGEST_BASELINE_BYTES


def _suggested_lines(quiet: list[GpuReading], driver_version: str | None) -> Iterator[Finding]:
    used: dict[str, set[int]] = {}
    for gpu in quiet:
        if gpu.model is not None and isinstance(gpu.memory_used_bytes, int):
            used.setdefault(gpu.model, set()).add(gpu.memory_used_bytes)
    for model in [model for model, values in used.items() if len(values) > 1]:
        values = ", ".join(map(str, sorted(used.pop(model))))
        text = f"GPUs of model {model} read different bytes ({values}): no line fits"
        yield Finding(Level.ADVICE, "idle memory", text, "nothing: such cards are never called free")
    if not used or driver_version is None:
        return
    entries = [f"{json.dumps(model)}: {next(iter(values))}" for model, values in sorted(used.items())]
    line = f"idle_memory_bytes: {{{', '.join(entries)}, driver: {json.dumps(driver_version)}}}"
    yield Finding(
        Level.ADVICE,
        "idle memory",
        f"{len(quiet)} GPUs are idle but for a few bytes that nobody listed holds",
        f"only if you have made sure that nothing runs on this node, add under agent: {line}",
    )
