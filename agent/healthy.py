"""The command `gpu-oncall-agent healthy`: does the agent of this config work? For health checks, so it is cheap."""

from pathlib import Path

import click

from agent.config_file import require_config
from agent.release import agent_runs
from wire.configfile import ConfigError
from wire.healthy import trouble_at


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="config.yaml; default: where `run` looks.")
def healthy(config: Path | None) -> None:
    """Exit status 0: the agent runs, and with agent.metrics.listen set, takes its samples. It reads no GPU."""
    try:
        settings = require_config(config)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if not agent_runs(settings.state_dir):
        raise click.ClickException(f"no agent runs in {settings.state_dir}")
    listen = settings.metrics.address()
    if listen is None:
        click.echo("an agent runs; whether it takes its samples is told only where agent.metrics.listen is set")
        return
    if (trouble := trouble_at(listen)) is not None:
        raise click.ClickException(trouble)
    click.echo("ok")
