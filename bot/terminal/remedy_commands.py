"""Remedies at the terminal: the same rules and the same record as in Slack, for approvers of the bot's own host."""

from pathlib import Path

import click

from bot.config_option import config_option
from bot.terminal.commands import ask

_as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")


@click.command()
@config_option
@_as_json
@click.argument("number", metavar="ID")
@click.option("--reason", default="", help="Why: it goes into the record.")
def approve(config_file: Path | None, as_json: bool, number: str, reason: str) -> None:
    """Approve a restart or a reboot that waits: its ID is in `gpu-oncall incidents`."""
    ask(config_file, "approve", (number, reason), as_json)


@click.command()
@config_option
@_as_json
@click.argument("number", metavar="ID")
@click.option("--reason", default="", help="Why: everybody reads it on the card.")
def deny(config_file: Path | None, as_json: bool, number: str, reason: str) -> None:
    """Deny a restart or a reboot that waits, or stop the countdown of a policy."""
    ask(config_file, "deny", (number, reason), as_json)


@click.command("stop-remedies")
@config_option
@_as_json
@click.option("--resume", is_flag=True, help="Allow them again.")
@click.option("--reason", default="", help="Why: everybody who asks for one reads it.")
def stop_remedies(config_file: Path | None, as_json: bool, resume: bool, reason: str) -> None:
    """Stop every restart and reboot that was not sent yet, and all from now on."""
    ask(config_file, "stop-remedies", ("--resume",) if resume else (reason,), as_json)
