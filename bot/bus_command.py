"""The command `gpu-oncall bus`: an external cluster's config, and a proof of who may do what."""

import asyncio
from pathlib import Path

import click

from bot.config_option import config_option, first_config
from wire.commands import Commands


@click.group(cls=Commands)
def bus() -> None:
    """The message bus between nodes and bot."""


@bus.command("print-config")
@click.option("--name", default="gpu-oncall-1", show_default=True, help="This server's name, another for each.")
@click.option("--listen", default="0.0.0.0:4222", show_default=True, help="Where nodes and bot reach it.")
@click.option("--monitor", default="127.0.0.1:8222", show_default=True, help="Its health page; without a password.")
@click.option("--store", type=click.Path(path_type=Path), default=Path("/var/lib/nats"), show_default=True)
@click.option("--max-store", default="8GiB", show_default=True, help="What the stream may hold, for each server.")
@click.option("--cert", type=click.Path(path_type=Path), default=Path("/etc/nats/server.pem"), show_default=True)
@click.option("--key", type=click.Path(path_type=Path), default=Path("/etc/nats/server.key"), show_default=True)
@click.option("--ca", type=click.Path(path_type=Path), default=Path("/etc/nats/ca.pem"), show_default=True)
@click.option("--cluster-listen", default="0.0.0.0:6222", show_default=True, help="Where the other servers reach it.")
@click.option(
    "--route", "routes", multiple=True, help="HOST:PORT of each server's cluster port; none: a single server."
)
@config_option
def print_config(
    routes: tuple[str, ...], cluster_listen: str, ca: Path, config_file: Path | None, **server: str
) -> None:
    """Print the config of one server of your own: accounts, users and rights of all nodes, and its cluster.

    Without --route it is a single server.

    Print it anew after each node add, join, rotate and remove, and let the servers reload.
    """
    from bot.broker.serverconf import Cluster
    from bot.config import load
    from bot.external import server_config

    config = load(config_file or first_config())
    cluster = Cluster(cluster_listen, routes, ca) if routes else None
    click.echo(server_config(config, cluster=cluster, **server), nl=False)


@bus.command("check")
@click.option("--all", "show_all", is_flag=True, help="Also what is as it should be.")
@config_option
def check(show_all: bool, config_file: Path | None) -> None:
    """Try every right and every missing right on the live bus. Exit status 1: something is not as it should be.

    Servers of your own log each refused attempt, of a client that calls itself check and a name.
    """
    from bot.config import load
    from bot.external import check_rights

    tried = asyncio.run(check_rights(load(config_file or first_config())))
    wrong = [attempt for attempt in tried if not attempt.is_well]
    for attempt in tried if show_all else wrong:
        verdict = "ok     " if attempt.is_well else "PROBLEM"
        click.echo(f"{verdict} {attempt.who} {'may' if attempt.was_let else 'may not'} {attempt.what}")
    click.echo(f"{len(tried)} attempts, {len(wrong)} not as they should be.")
    if wrong:
        click.echo("Write the servers' config anew (gpu-oncall bus print-config), or restart the bot.")
        raise SystemExit(1)
