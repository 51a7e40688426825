"""`gpu-oncall healthy`: does the bot of this config work? For health checks, so it is cheap."""

from pathlib import Path

import click

from bot.config import load
from bot.config_option import config_option, first_config
from bot.lock import bot_runs
from wire.healthy import trouble_at


@click.command()
@config_option
def healthy(config_file: Path | None) -> None:
    """Exit status 0: the bot runs and does its work, or waits for another bot that does."""
    config = load(config_file or first_config())
    if not bot_runs(config.data_dir):
        raise click.ClickException(f"no bot runs in {config.data_dir}")
    listen = config.metrics.address()
    if listen is None:
        click.echo("a bot runs; whether it works is told only where bot.metrics.listen is set")
        return
    if (trouble := trouble_at(listen)) is not None:
        raise click.ClickException(trouble)
    click.echo("ok")
