"""The command `gpu-oncall-agent once`: one sample, now, for a person or a script."""

import asyncio
import json
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from agent.allocation.allocations import allocations_of
from agent.clock import Clock
from agent.collectors import COLLECTORS, Collector
from agent.collectors.releasable import Releasable
from agent.config import AgentConfig
from agent.config_file import load_config
from agent.known_gpus import KnownGpus
from agent.read_sample import rule_settings, take_sample
from agent.releases import Releases
from agent.verdicts import GpuSample, Sample
from wire import subjects
from wire.configfile import ConfigError
from wire.messages import Allocation, AllocationState, Process, Verdict
from wire.reasons import in_english

EXIT_CONFIG = 2
EXIT_SAMPLE_ERROR = 3
NOT_READ = "not read"

_IN_WORDS = {
    Verdict.CANDIDATE: "candidate (idle)",
    Verdict.HELD: "held (in use)",
    Verdict.UNKNOWN: "unknown (cannot judge)",
}
_LIVE = ". A GPU is called free only after 3 windows of samples like this."
_RECORDED = " of recorded readings, which say nothing of this node's GPUs."
_HEADINGS = ("GPU", "UUID", "VERDICT", "UTIL", "MEMORY", "PROCESSES", "WHY")


class WrongConfig(click.ClickException):
    exit_code = EXIT_CONFIG


@click.command()
@click.option("--collector", type=click.Choice(sorted(COLLECTORS)), help="Instead of the config's.")
@click.option("--fixture", is_flag=True, help="Judge the built-in example of three GPUs; needs no GPU.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document, for scripts.")
@click.option("--config", type=click.Path(path_type=Path), help="config.yaml; without any file: the defaults.")
def once(collector: str | None, fixture: bool, as_json: bool, config: Path | None) -> None:
    """Read every GPU once and say what one sample concludes, and why.

    Exit status: 0 done, 2 usage or config, 3 the sample is an error and nothing is concluded.
    """
    settings = config_or_exit(config, collector)
    sample = asyncio.run(sample_once(settings, fixture=fixture))
    observed_at = Clock().wall()
    is_recorded = fixture or settings.collector == "replay"
    text = as_text(settings.node, sample, is_recorded=is_recorded)
    click.echo(as_document(settings.node, observed_at, sample) if as_json else text)
    if sample.errors:
        raise SystemExit(EXIT_SAMPLE_ERROR)


def config_or_exit(path: Path | None, collector: str | None = None) -> AgentConfig:
    """The config with the node's name filled in; a mistake in it ends the command with status 2."""
    try:
        config = load_config(path)
        node = config.node or subjects.node_name_from_host(socket.gethostname())
    except (ConfigError, ValueError) as error:
        raise WrongConfig(str(error)) from error
    return msgspec.structs.replace(config, node=node, collector=collector or config.collector)


async def sample_once(config: AgentConfig, *, fixture: bool = False) -> Sample:
    """Writes nothing: the known GPUs are read where they are, and a recording has none."""
    collector = collector_of(config, fixture=fixture)
    known = None if is_recording(collector) else KnownGpus(config.state_dir)
    allocations = allocations_of(config)
    try:
        return await take_sample(collector, known, rule_settings(config), allocations=allocations, remember=False)
    finally:
        allocations.close()
        await collector.close()


def collector_of(config: AgentConfig, *, fixture: bool = False) -> Collector:
    if not fixture:
        return Releasable(COLLECTORS[config.collector](config), Releases(config.state_dir, Clock()), answers=False)
    from agent.collectors.replay import FixtureCollector

    return FixtureCollector()


def is_recording(collector: Collector) -> bool:
    """Whether its GPUs are not those of this node."""
    return collector.name in ("fixture", "replay")


def as_document(node: str, observed_at: datetime, sample: Sample) -> str:
    document = {
        "node": node,
        "observed_at": observed_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "errors": [in_english(error) for error in sample.errors],
        "gpus": [_gpu_document(gpu) for gpu in sample.gpus],
    }
    return json.dumps(document, indent=2)


def _gpu_document(gpu: GpuSample) -> dict[str, Any]:
    """None is "not read": never 0, never an empty list."""
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "utilization_percent": gpu.utilization_percent,
        "memory_used_bytes": gpu.memory_used_bytes,
        "processes": None if gpu.processes is None else [msgspec.to_builtins(process) for process in gpu.processes],
        "power_milliwatts": gpu.power_milliwatts,
        "allocation": None if gpu.allocation is None else msgspec.to_builtins(gpu.allocation),
        "verdict": gpu.verdict.value,
        "reasons": [in_english(reason) for reason in gpu.reasons],
    }


def as_text(node: str, sample: Sample, *, is_recorded: bool = False) -> str:
    """A table, one GPU a line; control characters of foreign names do not reach the terminal."""
    lines = [f"Node {node}: one sample{_RECORDED if is_recorded else _LIVE}"]
    lines += [f"ERROR {in_english(error)}" for error in sample.errors]
    if sample.errors:
        lines.append("Nothing is concluded for any GPU.")
    rows = [_HEADINGS, *(_row(gpu) for gpu in sample.gpus)] if sample.gpus else []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(printable(line) for line in lines)


def _row(gpu: GpuSample) -> tuple[str, ...]:
    utilization = NOT_READ if gpu.utilization_percent is None else f"{gpu.utilization_percent} %"
    memory = NOT_READ if gpu.memory_used_bytes is None else in_mib(gpu.memory_used_bytes)
    why = "; ".join([*(in_english(reason) for reason in gpu.reasons), *_allocation(gpu.allocation)])
    return str(gpu.index), gpu.uuid, _IN_WORDS[gpu.verdict], utilization, memory, _processes(gpu.processes), why


def _allocation(allocation: Allocation | None) -> list[str]:
    if allocation is None or allocation.state is AllocationState.FREE:
        return []
    words = (
        "allocated to" if allocation.state is AllocationState.ALLOCATED else "whether it is allocated cannot be read:"
    )
    return [f"{words} {allocation.detail}"]


def _processes(processes: tuple[Process, ...] | None) -> str:
    if processes is None:
        return NOT_READ
    shown = [" ".join(filter(None, _words(process))) for process in processes[:4]]
    more = [f"{len(processes) - 4} more"] if len(processes) > 4 else []
    return ", ".join(shown + more) or "none"


def _words(process: Process) -> Iterator[str | None]:
    yield from (str(process.pid), process.user, process.command)
    yield from (f"{kind} {name}" for kind, name in (("pod", process.pod), ("job", process.job)) if name is not None)
    yield None if process.pod is not None else process.container


def in_mib(number_of_bytes: int) -> str:
    """Exact: what is not a whole number of MiB stays bytes, so that nothing is rounded to 0."""
    mib, rest = divmod(number_of_bytes, 1024 * 1024)
    return f"{number_of_bytes} B" if rest else f"{mib} MiB"


def printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
