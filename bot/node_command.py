"""The command `gpu-oncall node`: lets nodes in and out, while the bot runs and when it does not."""

from pathlib import Path

import click

from bot.config_option import config_option, first_config
from wire.commands import Commands

name_argument = click.argument("name")


@click.group(cls=Commands)
def node() -> None:
    """Let nodes in and out; each has a key of its own."""


@node.command("add")
@name_argument
@config_option
def add(name: str, config_file: Path | None) -> None:
    """Print the one line with which node NAME joins: valid for an hour, works once."""
    from bot import enrol
    from bot.config import load

    _invite(enrol.add(load(config_file or first_config()), name))


@node.command("rotate")
@name_argument
@config_option
def rotate(name: str, config_file: Path | None) -> None:
    """Print a line that gives NAME a new key; the old one counts until the new one is in."""
    from bot import enrol
    from bot.config import load

    _invite(enrol.rotate(load(config_file or first_config()), name))


def _invite(invitation: tuple[str, list[str]]) -> None:
    """Only the line itself goes to stdout."""
    token, notes = invitation
    click.echo("Run this on the node within an hour (it is a secret until then):", err=True)
    click.echo(f"gpu-oncall-agent join {token}")
    for note in notes:
        click.echo(note, err=True)


@node.command("remove")
@name_argument
@config_option
def remove(name: str, config_file: Path | None) -> None:
    """Shut NAME out: its connection ends at once, and its unused join lines count no more."""
    from bot import enrol
    from bot.config import load

    for line in enrol.remove(load(config_file or first_config()), name):
        click.echo(line)


@node.command("list")
@config_option
def list_nodes(config_file: Path | None) -> None:
    """Show who may be on the bus, and who is expected."""
    from bot import enrol
    from bot.config import load

    for line in enrol.listing(load(config_file or first_config())):
        click.echo(line)
