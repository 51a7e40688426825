"""gpu-oncall report: what a span of time came to, as text or as a page of HTML."""

from datetime import timedelta
from pathlib import Path

import click
from sqlalchemy import Connection

from bot import clock
from bot.config import BotConfig, load
from bot.config_option import config_option, first_config
from bot.database import with_record
from bot.terminal.commands import ask
from bot.wanted import report_settings
from wire.configfile import ConfigError
from wire.files import unwritten, write_private


@click.command()
@config_option
@click.option("--html", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write a page into this file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.argument("days", type=click.IntRange(1, 400), default=7)
def report(config_file: Path | None, file: Path | None, as_json: bool, days: int) -> None:
    """What the last DAYS (7) came to: GPU-hours, energy, stalls, and how often the bot was wrong.

    With --html the page is made from the record itself, also while the bot runs.
    """
    if file is None:
        ask(config_file, "report", (str(days),), as_json)
        return
    config = load(config_file or first_config())
    with_record(config, lambda connection: _write(connection, config, file, days))
    click.echo(f"written: {file}")


def _write(connection: Connection, config: BotConfig, file: Path, days: int) -> None:
    from bot.render.report_html import page  # only for this
    from bot.render.words import words
    from bot.reporting import gather

    now = clock.now()
    found = gather(connection, now - timedelta(days=days), now, report_settings(config))
    try:
        write_private(file, page(words(config.slack.language), found, now))
    except OSError as error:
        raise ConfigError(unwritten(error)) from error
