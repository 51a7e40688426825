"""The command `gpu-oncall slack manifest`."""

import click

from bot.manifest import as_yaml
from bot.render.words import words
from wire.commands import Commands


@click.group(cls=Commands)
def slack() -> None:
    """The Slack app."""


@slack.command()
@click.option("--language", default="en", show_default=True, help="The language of the descriptions.")
def manifest(language: str) -> None:
    """Print the app's manifest, to paste at api.slack.com/apps, From a manifest."""
    try:
        click.echo(as_yaml(words(language)), nl=False)
    except FileNotFoundError as error:
        raise click.UsageError(f"there is no language {language}") from error
