"""The command `gpu-oncall slack manifest`."""

from typing import get_args

import click

from bot.config import Language
from bot.manifest import as_yaml
from bot.render.words import words
from wire.commands import Commands


@click.group(cls=Commands)
def slack() -> None:
    """The Slack app."""


@slack.command()
@click.option(
    "--language",
    type=click.Choice(get_args(Language)),
    default="en",
    show_default=True,
    help="The language of the descriptions.",
)
def manifest(language: str) -> None:
    """Print the app's manifest, to paste at api.slack.com/apps, From a manifest."""
    click.echo(as_yaml(words(language)), nl=False)
