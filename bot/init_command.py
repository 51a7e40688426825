"""gpu-oncall init: asks what only a person knows, and makes the rest."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from bot.init import initialise, initialise_bot, next_steps
from bot.init_answers import NOTHING, Answers, Check, wrong_approver, wrong_channel, wrong_server
from wire.configfile import ConfigError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("oncall"))
@click.option("--config", "file", type=click.Path(path_type=Path), help="Only what the bot of this config.yaml needs.")
@click.option("--channel", help="The channel for cards: its id (C…).")
@click.option(
    "--approver", "approvers", multiple=True, help="Who may approve: a user's id (U…) or host:USER. Repeat it."
)
@click.option(
    "--server", "servers", multiple=True, help="A NATS server that runs already (tls://HOST:PORT). Repeat it."
)
@click.option("--yes", is_flag=True, help="Ask nothing: what is not given is left to the config file.")
def init(
    folder: Path,
    file: Path | None,
    channel: str | None,
    approvers: tuple[str, ...],
    servers: tuple[str, ...],
    yes: bool,
) -> None:
    """Make config, folders and keys for one machine in FOLDER (default: oncall). Overwrites nothing.

    Asks for the channel, who may approve, and the bus; without a terminal, or with --yes, it asks nothing.
    """
    if file is not None:
        _echo(initialise_bot(file))
        return
    given = Answers(channel, approvers, servers)
    _check(given)
    is_new = not (folder / "config.yaml").exists()
    answers = _asked(given) if is_new and not yes and sys.stdin.isatty() else given
    if not is_new and answers != NOTHING:
        raise ConfigError(f"{folder / 'config.yaml'} is there and is not overwritten: write it there yourself")
    _echo(initialise(folder, answers))
    click.echo(next_steps(folder, answers))


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _check(given: Answers) -> None:
    values: list[tuple[str, str, Check]] = []
    if given.channel is not None:
        values.append(("--channel", given.channel, wrong_channel))
    values += [("--approver", one, wrong_approver) for one in given.approvers]
    values += [("--server", one, wrong_server) for one in given.servers]
    for option, value, check in values:
        if wrong := check(value):
            raise click.UsageError(f"{option} {wrong}")


def _asked(given: Answers) -> Answers:
    """Only for what no option said. An empty answer leaves it to the config file."""
    channel = given.channel
    if channel is None:
        click.echo("The channel for cards. Its id stands at the end of the channel's details, for example C0123456789.")
        channel = next(iter(_ask("Channel (empty: later)", wrong_channel, several=False)), None)
    approvers = given.approvers
    if not approvers:
        click.echo(
            "\nWho may approve a restart or a reboot, and is called for a stall: users' ids (profile, Copy member ID),"
        )
        click.echo("with blanks between them; host:root for root of this machine.")
        approvers = _ask("Approvers (empty: nobody yet)", wrong_approver, several=True)
    servers = given.servers
    if not servers:
        click.echo(
            "\nThe bus between nodes and bot. The bot starts a NATS server of its own, unless you name one that runs."
        )
        servers = _ask("NATS servers (empty: its own)", wrong_server, several=True)
    return Answers(channel, approvers, servers)


def _ask(question: str, check: Check, *, several: bool) -> tuple[str, ...]:
    while True:
        typed = str(click.prompt(question, default="", show_default=False)).replace(",", " ").split()
        wrong = [f"{one}: {sentence}" for one in typed if (sentence := check(one))]
        if not several and len(typed) > 1:
            wrong.append("one only, please")
        if not wrong:
            return tuple(typed)
        click.echo("\n".join(wrong), err=True)
