"""The command gpu-oncall-agent."""

import asyncio
import logging
import sys
from pathlib import Path

import click

from wire.commands import HELP_OPTIONS, Commands, until_signal
from wire.configfile import ConfigError

CONFIG_HELP = "config.yaml; default: $GPU_ONCALL_CONFIG, config.yaml here, that of /etc/gpu-oncall, or that of `join`."

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


@click.group(cls=Commands, places=_COMMANDS, context_settings=HELP_OPTIONS)
@click.version_option(package_name="gpu-oncall")
def main() -> None:
    """Reads this node's GPUs and runners and tells the bot; does nothing by itself, and never decides."""


@main.command()
@click.option("--config", type=click.Path(path_type=Path), help=CONFIG_HELP)
def run(config: Path | None) -> None:
    """Sample, fold into windows and publish until stopped."""
    from agent.config_file import require_config
    from agent.run import run as run_agent
    from agent.spool import SpoolError

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = require_config(config)
        asyncio.run(until_signal(lambda stop: run_agent(settings, stop)))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error  # exit status 2, like every wrong config
    except SpoolError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
