"""The command gpu-oncall. Each command imports what it needs when it runs, so that none pays for another."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import click

from bot.broker.errors import BrokerError
from bot.config_option import config_option, first_config
from wire.commands import HELP_OPTIONS, Commands, until_signal
from wire.configfile import ConfigError

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

# Loaded only when they are called: none pays for another.
_COMMANDS = {
    "ack": "bot.terminal.commands:ack",
    "approve": "bot.terminal.remedy_commands:approve",
    "audit": "bot.audit_command:audit",
    "bus": "bot.bus_command:bus",
    "candidates": "bot.terminal.commands:candidates",
    "claim": "bot.terminal.commands:claim",
    "check": "bot.check.command:check",
    "db": "bot.db_command:db",
    "deny": "bot.terminal.remedy_commands:deny",
    "healthy": "bot.healthy:healthy",
    "incidents": "bot.terminal.commands:incidents",
    "init": "bot.init_command:init",
    "install-service": "bot.install_service:install_service",
    "node": "bot.node_command:node",
    "release": "bot.terminal.commands:release",
    "report": "bot.report_command:report",
    "replay": "bot.replay.command:replay",
    "rotate-signing-key": "bot.signing_command:rotate_signing_key",
    "slack": "bot.manifest_command:slack",
    "snooze": "bot.terminal.commands:snooze",
    "stop-remedies": "bot.terminal.remedy_commands:stop_remedies",
    "status": "bot.terminal.commands:status",
    "why": "bot.terminal.commands:why",
}


@click.command()
@config_option
def run(config_file: Path | None) -> None:
    """Run the bot: bus, judge, Slack."""
    from bot.config import load
    from bot.run import run as run_bot

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    for noisy in ("alembic", "apscheduler"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    config = load(config_file or first_config())
    asyncio.run(until_signal(lambda stop: run_bot(config, stop, os.environ)))


@click.group(cls=Commands, places=_COMMANDS, context_settings=HELP_OPTIONS)
@click.version_option(package_name="gpu-oncall")
def cli() -> None:
    """Says which GPUs are really free and which runners do no work; acts only as people approve or allow."""


for command in (run,):
    cli.add_command(command)


def main() -> None:
    """Trouble that a person can mend is one sentence on stderr, without a traceback: exit status 2 for the config."""
    try:
        cli()
    except (ConfigError, BrokerError) as error:
        click.echo(f"gpu-oncall: {error}", err=True)
        sys.exit(2 if isinstance(error, ConfigError) else 1)


if __name__ == "__main__":
    main()
