"""The option --config of every command, and the file that is read without it."""

from pathlib import Path

import click

from wire.configfile import ConfigError

CONFIG_PLACES = (Path("config.yaml"), Path("/etc/gpu-oncall/config.yaml"))

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="GPU_ONCALL_CONFIG",
    show_envvar=True,
    help="The config file; default: config.yaml here, then /etc/gpu-oncall/config.yaml.",
)


def first_config() -> Path:
    """The file to read when none is named; raises ConfigError when there is none."""
    for place in CONFIG_PLACES:
        if place.is_file():
            return place
    raise ConfigError("there is no config file: give --config FILE, or make one with gpu-oncall init")
