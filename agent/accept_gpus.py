"""The command `gpu-oncall-agent accept-gpus`: a person says that the GPUs that are there now are all of them."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from agent.config import AgentConfig
from agent.known_gpus import KnownGpus, KnownGpusError
from agent.once import EXIT_CONFIG, EXIT_SAMPLE_ERROR, collector_of, config_or_exit, is_recording, printable
from agent.read_sample import judge_live, rule_settings
from agent.reading import GpuReading, KnownGpu, Sweep
from wire.files import unwritten
from wire.reasons import in_english


@click.command("accept-gpus")
@click.option("--config", type=click.Path(path_type=Path), help="config.yaml; without any file: the defaults.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def accept_gpus(config: Path | None, yes: bool) -> None:
    """Make the GPUs that are there now the known ones, after a card was really taken out.

    Exit status: 0 done or nothing to do, 1 not done, 2 usage or config, 3 the GPUs cannot be read now.
    """
    settings = config_or_exit(config)
    readings = _read_or_exit(settings)
    known = KnownGpus(settings.state_dir)
    changes = list(_changes(_known_or_nothing(known), readings))
    if not changes:
        click.echo(f"Nothing to do: the {len(readings)} GPUs of this node are the known ones.")
        return
    click.echo("\n".join(map(printable, changes)))
    if not yes:
        click.confirm("Are the cards that are gone really taken out?", abort=True)
    _save(known, readings)


def _read_or_exit(config: AgentConfig) -> tuple[GpuReading, ...]:
    sweep = asyncio.run(_sweep(config))
    errors = judge_live(sweep, None, rule_settings(config), remember=False).errors
    for error in errors:
        click.echo(f"ERROR {printable(in_english(error))}", err=True)
    if errors:
        click.echo("Nothing was changed.", err=True)
        raise SystemExit(EXIT_SAMPLE_ERROR)
    return sweep.gpus


async def _sweep(config: AgentConfig) -> Sweep:
    collector = collector_of(config)
    if is_recording(collector):
        click.echo("The config's collector replays a recording: it says nothing of this node's GPUs.", err=True)
        raise SystemExit(EXIT_CONFIG)
    try:
        return await collector.sweep()
    finally:
        await collector.close()


def _known_or_nothing(known: KnownGpus) -> Mapping[str, KnownGpu]:
    """A damaged file is what this command is for."""
    try:
        return known.load()
    except KnownGpusError as error:
        click.echo(str(error), err=True)
        return {}


def _changes(known: Mapping[str, KnownGpu], readings: tuple[GpuReading, ...]) -> Iterator[str]:
    present = {gpu.uuid: gpu for gpu in readings}
    for uuid, gone in known.items():
        if uuid not in present:
            yield f"gone: {uuid} (was index {gone.index}, {gone.model or 'model not known'})"
    for uuid, new in present.items():
        if uuid not in known:
            yield f"new:  {uuid} (index {new.index}, {new.model or 'model not known'})"


def _save(known: KnownGpus, readings: tuple[GpuReading, ...]) -> None:
    try:
        known.replace_all(readings)
    except OSError as error:
        raise click.ClickException(unwritten(error, "the agent's user, or as root")) from error
    click.echo(f"Accepted: {len(readings)} GPUs are now the known ones of this node.")
