"""gpu-oncall replay: reads the bot's record, changes nothing, and asks neither bot nor Slack."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click
from sqlalchemy import Connection

from bot import clock
from bot.config import BotConfig, load
from bot.config_option import config_option, first_config
from bot.database import with_record
from bot.incident import Kind
from bot.render.words import words
from bot.replay.compare import compare, last_states
from bot.replay.past import Change, Past
from bot.replay.text import change_line, comparison
from bot.store import incidents, windows
from bot.wanted import rule, stall_settings
from wire.configfile import ConfigError
from wire.units import Duration, parse_duration

KINDS = (Kind.CANDIDATE, Kind.RUNNER)


class _DurationType(click.ParamType[Duration]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Duration:
        if isinstance(value, Duration):
            return value
        try:
            return parse_duration(value)
        except ValueError:
            self.fail("wants a duration such as 7d or 12h", param, ctx)


@click.command()
@config_option
@click.option("--since", type=_DurationType(), default="7d", show_default=True, help="How far back.")
@click.option("--node", help="Only this node.")
def replay(config_file: Path | None, since: Duration, node: str | None) -> None:
    """Judge the recorded past again, under the thresholds of the config, and say what would have been said.

    With another file in --config (the same data_dir, other thresholds), see what these would have changed. Silence of
    nodes, what people pressed, snoozes and maintenance are not part of it.
    """
    config = load(config_file or first_config())
    now = clock.now()
    with_record(config, lambda connection: _print(connection, config, now - since, now, node))


def _print(connection: Connection, config: BotConfig, since: datetime, until: datetime, node: str | None) -> None:
    if node is not None and node not in windows.load_tracks(connection):
        raise ConfigError(f"of the node {node} nothing is recorded: gpu-oncall status names those that are")
    language = words(config.slack.language)
    changes = []
    for change in changes_since(connection, config, since, node):
        changes.append(change)
        click.echo(change_line(language, change))
    then = [one for one in incidents.open_since(connection, since, KINDS) if node in (None, one.node)]
    for line in comparison(language, *compare(then, last_states(changes), since, until)):
        click.echo(line)


def changes_since(connection: Connection, config: BotConfig, since: datetime, node: str | None) -> Iterator[Change]:
    past = Past(rule(config), stall_settings(config))
    for observation in windows.windows_since(connection, since, node):
        yield from past.take(observation)
