"""The command `gpu-oncall db`: bring the database to the present schema, copy it, and bring a copy back."""

import os
from pathlib import Path

import click

from bot.config_option import config_option, first_config
from wire.commands import Commands

_file = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
_RESTORED = (
    "Approvals that were under way are void, and what may be in Slack already is looked for there before it is posted."
)


@click.group(cls=Commands)
def db() -> None:
    """The bot's database: backup, restore, schema."""


@db.command("migrate")
@config_option
def migrate(config_file: Path | None) -> None:
    """Bring the database to this version's schema; the bot does the same at its start."""
    from bot import backup
    from bot.config import load

    backup.bring_to_present(load(config_file or first_config()))
    click.echo("The database is at this version's schema.")


@db.command("backup")
@_file
@config_option
def back_up(file: Path, config_file: Path | None) -> None:
    """Copy the database into the new file FILE, while the bot works. It is an SQLite file, also of a PostgreSQL."""
    from bot import backup
    from bot.config import load

    backup.back_up(load(config_file or first_config()), file)
    click.echo(f"{file}: {file.stat().st_size // 1024} KiB. The keys in bot.data_dir are not part of it.")


@db.command("restore")
@_file
@click.option("--replace", is_flag=True, help="Also where the database is not empty: what is in it is lost.")
@config_option
def restore(file: Path, replace: bool, config_file: Path | None) -> None:
    """Put the backup FILE into the database of the config, of whichever kind, while no bot works."""
    from bot import backup
    from bot.config import load

    fence = backup.restore(load(config_file or first_config()), file, host_user(), replaces=replace)
    click.echo(f"Restored; the next bot's orders have a number above {fence}. {_RESTORED}")


@db.command("restored")
@config_option
def restored(config_file: Path | None) -> None:
    """Say that other tools (pg_restore, a snapshot of a disk) brought the database back to an earlier time."""
    from bot import backup
    from bot.config import load

    fence = backup.restored(load(config_file or first_config()), host_user())
    click.echo(f"The next bot's orders have a number above {fence}. {_RESTORED}")


def host_user() -> str:
    from bot.terminal.server import host_user

    return host_user(os.getuid())
