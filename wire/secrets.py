"""Secrets come from the environment, as NAME or as NAME_FILE; no message ever shows one."""

from collections.abc import Mapping
from pathlib import Path

from wire.configfile import ConfigError


def secret(name: str, environ: Mapping[str, str]) -> str | None:
    """The secret NAME, or the content of the file that NAME_FILE names; None when neither is set.

    Raises ConfigError when both are set, when one is empty, or when the file cannot be read.
    """
    value, file = environ.get(name), environ.get(f"{name}_FILE")
    if value is not None and file is not None:
        raise ConfigError(f"both {name} and {name}_FILE are set: set only one of them")
    if file is not None:
        return _content(name, Path(file))
    if value is None:
        return None
    if not value.strip():
        raise ConfigError(f"{name} is set but empty: give it a value or unset it")
    return value.strip()


def _content(name: str, file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{name}_FILE: {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}_FILE: {file} is not UTF-8 text") from error
    if not text:
        raise ConfigError(f"{name}_FILE: {file} is empty")
    return text
