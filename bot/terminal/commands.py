"""The terminal's commands: what /gpu-… answers in Slack, on the bot's own host."""

import asyncio
import json
import sys
from pathlib import Path

import click

from bot.config import BotConfig, load
from bot.config_option import config_option, first_config
from bot.terminal.client import ask_running
from bot.terminal.wire import Reply, Request

EXIT_NOT_UNDERSTOOD = 1


def ask(config_file: Path | None, command: str, typed: tuple[str, ...], as_json: bool) -> None:
    config = load(config_file or first_config())
    reply = asyncio.run(_answer(config, Request(command, " ".join(typed))))
    if as_json:
        click.echo(json.dumps({"text": reply.text, "understood": reply.understood}, ensure_ascii=False))
    else:
        click.echo(reply.text, err=not reply.understood)
    if not reply.understood:
        sys.exit(EXIT_NOT_UNDERSTOOD)


async def _answer(config: BotConfig, request: Request) -> Reply:
    running = await ask_running(config.data_dir, request)
    if running is not None:
        return running
    from bot.terminal.offline import answer_offline  # half a second of imports that a running bot spares

    return await answer_offline(config, request)


def _command(name: str, metavar: str, help_text: str) -> click.Command:
    @click.command(name, help=help_text, context_settings={"ignore_unknown_options": True})
    @config_option
    @click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
    @click.argument("typed", nargs=-1, metavar=metavar)
    def command(config_file: Path | None, as_json: bool, typed: tuple[str, ...]) -> None:
        ask(config_file, name, typed, as_json)

    return command


why = _command("why", "NODE GPU|RUNNER [TIME]", "Why a GPU is called free, or why not; what was seen of a runner.")
status = _command("status", "[NODE]", "The fleet, or one node with its GPUs.")
candidates = _command("candidates", "[NODE]", "Which GPUs are free now, and which are not quite.")
incidents = _command("incidents", "[mine|ID]", "What is open; with its number, one incident.")
ack = _command("ack", "ID", "Say that you look at an incident.")
snooze = _command("snooze", "ID|NODE DURATION|off [REASON]", "Keep an incident or a node quiet for so long.")
claim = _command(
    "claim", "NODE GPU|all DURATION [REASON]", "Say that a GPU is yours for so long: it is not called free."
)
release = _command("release", "NODE GPU|all", "End your claim of a GPU.")
