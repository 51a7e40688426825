"""One sample from end to end: collector, process view, rule, known GPUs, explanation."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from msgspec.structs import replace

from agent.allocation.allocations import Allocations
from agent.collectors import Collector
from agent.collectors.host import process_view
from agent.config import AgentConfig
from agent.known_gpus import KnownGpus, KnownGpusError
from agent.processes import explain
from agent.reading import Baseline, KnownGpu, ProcessView, Sweep
from agent.verdicts import RuleSettings, Sample, failed_sample, judge_sweep
from wire.reasons import Reason, ReasonCode

ReadView = Callable[[Iterable[int]], ProcessView]


async def take_sample(
    collector: Collector,
    known_gpus: KnownGpus | None,
    settings: RuleSettings,
    *,
    allocations: Allocations | None = None,
    remember: bool = True,
    read_view: ReadView = process_view,
) -> Sample:
    """Never raises. `known_gpus` None: any set of GPUs will do (a recording). `remember` False writes nothing.

    Allocation is asked for after the verdict, and for every GPU that has one: a recording's are of another time.
    """
    sweep = await collector.sweep()
    sample = judge_live(sweep, known_gpus, settings, remember=remember, read_view=read_view)
    if allocations is None or sweep.view is not None or not sample.gpus:
        return sample
    given = await allocations.read({gpu.uuid: gpu.index for gpu in sample.gpus})
    return replace(sample, gpus=tuple(replace(gpu, allocation=given.get(gpu.uuid)) for gpu in sample.gpus))


def judge_live(
    sweep: Sweep,
    known_gpus: KnownGpus | None,
    settings: RuleSettings,
    *,
    remember: bool,
    read_view: ReadView = process_view,
) -> Sample:
    """A sweep that was read just now, judged beside what this host says of processes and of the GPUs it had."""
    view = sweep.view if sweep.view is not None else read_view(_graphics_pids(sweep, settings))
    try:
        known: Mapping[str, KnownGpu] = known_gpus.load() if known_gpus is not None else {}
        sample = judge_sweep(sweep, view, known, settings)
        if remember and known_gpus is not None and not sample.errors:
            known_gpus.remember(sweep.gpus)
    except KnownGpusError as error:
        return failed_sample((Reason(ReasonCode.SAMPLE_ERROR, str(error)),), {})
    return sample if sweep.view is not None else _explained(sample)


def rule_settings(config: AgentConfig) -> RuleSettings:
    """The rule's settings as the config has them: `driver` beside the models' bytes."""
    entries = config.idle_memory_bytes
    driver = entries.get("driver")
    by_model = {model: value for model, value in entries.items() if isinstance(value, int)}
    baseline = Baseline(driver if isinstance(driver, str) else None, by_model)
    return RuleSettings(frozenset(config.ignore_graphics), baseline)


def _graphics_pids(sweep: Sweep, settings: RuleSettings) -> list[int]:
    if not settings.ignore_graphics:
        return []
    return [process.pid for gpu in sweep.gpus if isinstance(gpu.graphics, tuple) for process in gpu.graphics]


def _explained(sample: Sample) -> Sample:
    """PIDs of a recording belong to another time or host, so only live readings come here."""
    explained = iter(explain(process for gpu in sample.gpus for process in gpu.processes or ()))
    gpus = (
        replace(gpu, processes=tuple(islice(explained, len(gpu.processes)))) if gpu.processes else gpu
        for gpu in sample.gpus
    )
    return replace(sample, gpus=tuple(gpus))
