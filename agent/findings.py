"""What `check` finds: what is read, from where, what stands in the way, and what to do."""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from agent.reading import Baseline, GpuReading, KnownGpu, ProcessView, Sweep
from agent.verdicts import LARGEST_BASELINE_BYTES, GpuSample, Sample
from wire.messages import Verdict
from wire.reasons import ReasonCode, in_english

SLOW_SWEEP_SECONDS = 3.0  # a sweep takes milliseconds where the driver stays loaded


class Level(StrEnum):
    OK = "ok"
    ADVICE = "advice"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """`todo` is what a person should do next, "" where there is nothing."""

    level: Level
    topic: str
    text: str
    todo: str = ""


def about_process_view(view: ProcessView) -> Iterator[Finding]:
    if view.error is not None:
        yield Finding(Level.PROBLEM, "process view", view.error)
    for obstacle in view.obstacles:
        yield Finding(Level.PROBLEM, "process view", obstacle, "until then every GPU of this node stays unknown")
    if view.error is None and not view.obstacles:
        yield Finding(Level.OK, "process view", "the driver's list of processes is complete here")


def about_reading(collector: str, sweep: Sweep, took_seconds: float) -> Iterator[Finding]:
    if sweep.error is not None:
        yield Finding(Level.PROBLEM, "collector", f"{collector}: {sweep.error}")
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
        todo = "if the card was really taken out: gpu-oncall-agent accept-gpus" if is_missing else ""
        yield Finding(Level.PROBLEM, "sample", in_english(error), todo)
    if not sample.errors:
        yield from (_about_gpu(gpu) for gpu in sample.gpus)


def _about_gpu(gpu: GpuSample) -> Finding:
    level = Level.PROBLEM if gpu.verdict is Verdict.UNKNOWN else Level.OK
    why = "; ".join(in_english(reason) for reason in gpu.reasons)
    return Finding(
        level, f"GPU {gpu.index}", f"{gpu.verdict.value} - {why} ({gpu.model or 'no model name'}, {gpu.uuid})"
    )


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
        yield Finding(
            Level.ADVICE, "idle memory", f"GPUs of model {model} read different bytes ({values}): no line fits"
        )
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
