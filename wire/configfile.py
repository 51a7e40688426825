"""Reads one section of config.yaml strictly: a wrong key or value is an error with its line and the nearest right key."""

from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import msgspec


class Duration(timedelta):
    """A duration, written `10s`, `5m`, `1h`, `30d` in the file."""


class Size(int):
    """A number of bytes, written `512MiB`, `1GiB` (or a plain number) in the file."""


class ConfigError(Exception):
    """A config that cannot be used; the text names file, line, key, what is wrong and what to do."""


Section = TypeVar("Section", bound=msgspec.Struct)


def load_section(path: Path, name: str, section: type[Section]) -> Section:
    """The section `name` of the file as a value of type `section`; raises ConfigError."""
    raise NotImplementedError
