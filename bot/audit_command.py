"""gpu-oncall audit: whether the record of remedies is whole, and what it says."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from sqlalchemy import Connection

from bot.config import load
from bot.config_option import config_option, first_config
from bot.database import with_record
from bot.store import audit as record
from bot.store.audit import Head, Recorded, head_of, verify
from wire.commands import Commands

EXIT_BROKEN = 1


@click.group(cls=Commands)
def audit() -> None:
    """The record of who asked for, approved and refused remedies: rows are only ever added."""


@audit.command("verify")
@config_option
@click.option("--head", "kept", help="A head that a card or a report once printed, such as 57:3f2a9c81d2e40b17.")
def verify_command(config_file: Path | None, kept: str | None) -> None:
    """Check that no row was changed, removed or inserted; with --head, that no tail was cut off."""
    try:
        head = head_of(kept) if kept else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--head") from error
    with_record(load(config_file or first_config()), lambda connection: _verify(connection, head))


def _verify(connection: Connection, kept: Head | None) -> None:
    count, wrong = verify(connection, kept)
    for one in wrong:
        click.echo(one, err=True)
    if wrong:
        click.echo(f"The record of {count} rows is not whole.", err=True)
        sys.exit(EXIT_BROKEN)
    click.echo(f"The record of {count} rows is whole; its head is {record.head(connection) or '-'}.")
    if kept is None:
        click.echo("Without --head a tail that was cut off does not show: cards of remedies print the head.")


@audit.command("show")
@config_option
@click.argument("number", metavar="ID", type=int)
def show(config_file: Path | None, number: int) -> None:
    """Everything that is recorded of one remedy."""
    with_record(load(config_file or first_config()), lambda connection: _show(record.of_remedy(connection, number)))


def _show(rows: Sequence[Recorded]) -> None:
    for row in rows:
        entry = row.entry
        at, who = f"{entry.at:%Y-%m-%d %H:%M:%S}Z", entry.who or "bot"
        click.echo(f"{row.number}  {at}  {who}  {entry.what}  {entry.why}".rstrip())
    if not rows:
        click.echo("nothing is recorded of it", err=True)
