"""The command gpu-oncall-agent."""

import asyncio
import importlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from wire.configfile import ConfigError

# Loaded only when they are called: `run` stays small on the node.
_COMMANDS = {
    "accept-gpus": "agent.accept_gpus:accept_gpus",
    "capture": "agent.capture:capture",
    "check": "agent.check:check",
    "healthy": "agent.healthy:healthy",
    "install-service": "agent.install_service:install_service",
    "join": "agent.join:join",
    "once": "agent.once:once",
    "release": "agent.release:release",
}


class _LazyGroup(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return sorted([*super().list_commands(context), *_COMMANDS])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return super().get_command(context, name)
        module, _, attribute = _COMMANDS[name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None


@click.group(cls=_LazyGroup)
@click.version_option(package_name="gpu-oncall")
def main() -> None:
    """Reads this node's GPUs and tells the bot; does nothing by itself, and never decides."""


@main.command()
@click.option("--config", type=click.Path(path_type=Path), help="config.yaml; default: see docs.")
def run(config: Path | None) -> None:
    """Sample, fold into windows and publish until stopped."""
    from agent.config_file import require_config
    from agent.run import run as run_agent
    from agent.spool import SpoolError

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = require_config(config)
        asyncio.run(_until_signal(lambda stop: run_agent(settings, stop)))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error  # exit status 2, like every wrong config
    except SpoolError as error:
        raise click.ClickException(str(error)) from error


async def _until_signal(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await work(stop)


if __name__ == "__main__":
    main()
