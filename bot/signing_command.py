"""The command `gpu-oncall rotate-signing-key`."""

from pathlib import Path

import click

from bot.config_option import config_option, first_config


@click.command()
@config_option
def rotate_signing_key(config_file: Path | None) -> None:
    """Give the bot a new key for orders; the old one signs no more, and nodes learn the new one by themselves."""
    from bot import signing
    from bot.config import load

    for line in signing.rotate(load(config_file or first_config())):
        click.echo(line)
