"""Reads the key file with which a node or the bot signs in at the bus."""

import os
import stat
from pathlib import Path

from wire import nkey
from wire.configfile import ConfigError


def read_seed(path: Path) -> str:
    """The user seed in the file. Raises ConfigError, also when others than the owner may read the file."""
    try:
        with path.open(encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            seed = file.read().strip()
    except OSError as error:
        how = "; gpu-oncall init or gpu-oncall-agent join makes one" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"the key file {path} cannot be read: {error.strerror}{how}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the key file {path} is no key: it is not plain text") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"the key file {path} may be read by others (mode {mode & 0o777:04o}): run chmod 600 {path}")
    try:
        nkey.public_key(seed)
    except nkey.BadKeyError as error:
        raise ConfigError(f"the key file {path} is no key: {error}") from error
    return seed
