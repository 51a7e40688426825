"""Where the agent's config.yaml is found."""

import os
from collections.abc import Mapping
from pathlib import Path

from agent.config import AgentConfig, load
from wire.configfile import ConfigError

VARIABLE = "GPU_ONCALL_CONFIG"
JOINED_CONFIG = Path("/var/lib/gpu-oncall-agent/config.yaml")  # where `join` writes one when there is none
SYSTEM_PLACES = (Path("/etc/gpu-oncall/config.yaml"), JOINED_CONFIG)
PLACES = (Path("config.yaml"), *SYSTEM_PLACES)


def find_config(option: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file that `--config` names, else the variable, else the first that exists; None when there is none."""
    if option is not None:
        return option
    if named := environ.get(VARIABLE):
        return Path(named)
    return next((place for place in PLACES if place.is_file()), None)


def load_config(option: Path | None) -> AgentConfig:
    """The config, or the defaults when there is no file; raises ConfigError."""
    path = find_config(option)
    return AgentConfig() if path is None else load(path)


def require_config(option: Path | None) -> AgentConfig:
    """The config of a command that cannot do with defaults; raises ConfigError."""
    path = find_config(option)
    if path is None:
        places = ", ".join(str(place) for place in PLACES)
        raise ConfigError(
            f"there is no config file: give --config PATH or set {VARIABLE}, or let gpu-oncall-agent join make one "
            f"(looked at {places})"
        )
    return load(path)
