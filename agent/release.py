"""The command `gpu-oncall-agent release`: lets go of the driver for a GPU reset or a MIG change, and takes it back."""

import asyncio
import fcntl
import getpass
import os
from datetime import timedelta
from pathlib import Path

import click

from agent.clock import Clock
from agent.config import AgentConfig
from agent.once import config_or_exit, printable
from agent.releases import LOCK_NAME, LONGEST_RELEASE, Answer, Release, Releases
from wire.files import unwritten
from wire.units import duration_text, parse_duration

EXIT_NOT_RELEASED = 1
DEFAULT_DURATION = "30m"
AGENT_GRACE = timedelta(seconds=15)  # ending a worker takes 6 s at most, and the machine may be busy
LONGEST_WORDS = 200
_LOOK_EVERY = timedelta(seconds=0.1)


@click.command()
@click.option("--for", "duration", default=DEFAULT_DURATION, show_default=True, help="Taken up again after this long.")
@click.option("--reason", default="", help="What for; people read it where GPUs cannot be judged.")
@click.option("--end", is_flag=True, help="Take the GPUs up again now.")
@click.option("--config", type=click.Path(path_type=Path), help="config.yaml; without any file: the defaults.")
def release(duration: str, reason: str, end: bool, config: Path | None) -> None:
    """Make the running agent let go of the GPUs, for a GPU reset or a MIG change.

    Until then every GPU of this node is reported as not judged. A reboot ends it too.
    Exit status: 0 done, 1 something still holds the GPUs or the agent does not answer, 2 usage or config.
    """
    settings = config_or_exit(config)
    releases = Releases(settings.state_dir, Clock())
    try:
        if end:
            _end(releases)
            return
        begun = releases.begin(_person(), printable(reason)[:LONGEST_WORDS], _length(duration))
    except OSError as error:
        raise click.ClickException(unwritten(error, "the agent's user, or as root")) from error
    _await_agent(settings, releases, begun)


def _end(releases: Releases) -> None:
    was_there = releases.end()
    click.echo("The agent takes the GPUs up again with its next reading." if was_there else "Nothing was released.")


def _length(text: str) -> timedelta:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise click.UsageError("--for wants a duration, for example 30m or 2h") from error
    if not timedelta(0) < duration <= LONGEST_RELEASE:
        raise click.UsageError(f"--for wants more than 0s and at most {duration_text(LONGEST_RELEASE)}")
    return duration


def _person() -> str:
    """Who asked, also behind sudo. A word for people: it gives no right."""
    return printable(os.environ.get("SUDO_USER") or getpass.getuser())[:64]


def _await_agent(config: AgentConfig, releases: Releases, begun: Release) -> None:
    if not agent_runs(config.state_dir):
        click.echo(f"No agent runs in {config.state_dir}; one that starts stays off the GPUs until {_until(begun)}.")
        return
    limit = config.sample_every + config.sample_deadline + AGENT_GRACE
    answer = asyncio.run(_answer(releases, begun, limit))
    if answer is None:
        raise click.ClickException(
            f"the agent has not answered within {duration_text(limit)}, so it may still hold the GPUs: look at its log"
        )
    if answer.kept is not None:
        click.echo(f"Not released: {printable(answer.kept)}", err=True)
        raise SystemExit(EXIT_NOT_RELEASED)
    click.echo(f"The agent has let go of the GPUs until {_until(begun)}. To end it: gpu-oncall-agent release --end")


async def _answer(releases: Releases, begun: Release, limit: timedelta) -> Answer | None:
    deadline_seconds = asyncio.get_running_loop().time() + limit.total_seconds()
    while asyncio.get_running_loop().time() < deadline_seconds:
        if (answer := releases.answer_to(begun)) is not None:
            return answer
        await asyncio.sleep(_LOOK_EVERY.total_seconds())
    return None


def _until(begun: Release) -> str:
    return f"{begun.until:%Y-%m-%d %H:%M} UTC"


def agent_runs(state_dir: Path) -> bool:
    """Whether somebody holds the state folder's lock. It is asked for shared, and given back at once."""
    try:
        lock = os.open(state_dir / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
