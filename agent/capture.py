"""The command `gpu-oncall-agent capture`: this node's readings as a recording that others can replay."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import click
import msgspec
from msgspec.structs import replace

from agent.collectors.host import process_view
from agent.config import AgentConfig
from agent.once import EXIT_CONFIG, collector_of, config_or_exit, is_recording
from agent.reading import Sweep
from wire.files import new_private_file, unwritten
from wire.units import duration_text, parse_duration

EXIT_FILE = 1
LONGEST_CAPTURE = timedelta(hours=24)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_HEAD = """\
# A recording of gpu-oncall-agent capture: one sweep of all GPUs per line, every {every}, collector {collector}.
# UUIDs are replaced. It holds models, driver, readings and PIDs; no names of hosts, users, programs or containers.
# To play it: agent.collector: replay, agent.replay_file: this file.
"""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--for", "duration", default="60s", show_default=True, help="How long; a reading each sample_every.")
@click.option("--config", type=click.Path(path_type=Path), help="config.yaml; without any file: the defaults.")
def capture(file: Path, duration: str, config: Path | None) -> None:
    """Write this node's readings to FILE, as a recording that `collector: replay` plays.

    For showing somebody a reading that is judged wrongly. FILE must not exist yet; it is there when all is written, and
    Ctrl-C ends it early.

    Exit status: 0 done (readings that failed are recorded too), 1 FILE cannot be written, 2 usage or config.
    """
    settings = config_or_exit(config)
    length = _length(duration)
    if settings.collector == "replay":
        click.echo("The config's collector replays a recording: there is nothing of this node to capture.", err=True)
        raise SystemExit(EXIT_CONFIG)
    try:
        with new_private_file(file) as draft, draft.open("wb") as out:
            sweeps, errors = asyncio.run(_capture(settings, length, out))
    except OSError as error:
        click.echo(unwritten(error), err=True)
        raise SystemExit(EXIT_FILE) from error
    click.echo(f"{file}: {sweeps} readings, {errors} of them failed. It is text: look at it before you send it.")


def _length(text: str) -> timedelta:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise click.UsageError("--for wants a duration, for example 60s or 5m") from error
    if duration > LONGEST_CAPTURE:
        raise click.UsageError(f"--for wants at most {duration_text(LONGEST_CAPTURE)}")
    return duration


async def _capture(config: AgentConfig, length: timedelta, out: BinaryIO) -> tuple[int, int]:
    out.write(_HEAD.format(every=duration_text(config.sample_every), collector=config.collector).encode())
    names = Pseudonyms()
    sweeps = errors = 0
    try:
        async for sweep in _sweeps(config, length):
            out.write(names.line(sweep, frozenset(config.ignore_graphics)))
            out.flush()
            sweeps, errors = sweeps + 1, errors + (sweep.error is not None)
    except asyncio.CancelledError:  # Ctrl-C: a shorter recording is one, too
        if not sweeps:
            raise
    return sweeps, errors


async def _sweeps(config: AgentConfig, length: timedelta) -> AsyncIterator[Sweep]:
    """At least one; each with the view of processes that this node has now."""
    collector = collector_of(config)
    now = asyncio.get_running_loop().time
    began_seconds, count = now(), 0
    try:
        while count == 0 or count * config.sample_every <= length:
            await asyncio.sleep(max(0.0, began_seconds + count * config.sample_every.total_seconds() - now()))
            sweep = await collector.sweep()
            pids = [process.pid for gpu in sweep.gpus if isinstance(gpu.graphics, tuple) for process in gpu.graphics]
            yield sweep if is_recording(collector) else replace(sweep, view=process_view(pids))
            count += 1
    finally:
        await collector.close()


class Pseudonyms:
    """Names for UUIDs, the same one throughout a recording; they have a UUID's form, so that replay judges alike."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def line(self, sweep: Sweep, needed_programs: frozenset[str]) -> bytes:
        """Programs that the config does not name in `ignore_graphics` decide nothing, so their names stay here."""
        view = sweep.view
        if view is not None:
            programs = {pid: name for pid, name in view.programs.items() if name in needed_programs}
            sweep = replace(sweep, view=replace(view, programs=programs))
        text = msgspec.json.encode(sweep).decode()
        return _UUID.sub(lambda match: self._of(match.group()), text).encode() + b"\n"

    def _of(self, uuid: str) -> str:
        number = len(self._names)
        return self._names.setdefault(uuid.lower(), f"{uuid[:3].upper()}-00000000-0000-4000-8000-{number:012x}")
