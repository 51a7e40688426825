"""What a config key wants, in words and with an example."""

from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from wire.units import Duration, Size, duration_text, parse_duration, parse_size, size_text

# type: what it is in words, an example for a field without a default
_WORDS: dict[Any, tuple[str, str]] = {
    str: ("text", "text"),
    int: ("a whole number", "3"),
    float: ("a number", "0.5"),
    bool: ("true or false", "true"),
    Duration: ("a duration with its unit (d, h, m, s)", "5m"),
    Size: ("a size (KiB, MiB, GiB)", "512MiB"),
    Path: ("a path", "/path/to/file"),
    list: ("a list", "[one, two]"),
    dict: ("keys with values", "{key: value}"),
    NoneType: ("null", "null"),
}
_LONGEST_SHOWN = 40


def convert(wants: type, value: Any) -> Any:
    """msgspec's hook for the types that it does not know; raises ValueError."""
    if wants is Duration:
        return parse_duration(value)
    if wants is Size:
        return parse_size(value)
    if wants is Path and isinstance(value, str) and value and "\0" not in value:
        return Path(value)
    raise ValueError(f"not a {wants.__name__}")


def sentence(wants: Any, value: Any, key: str, info: FieldInfo | None) -> str:
    """Why `value` is wrong, what is wanted, and an example where `info` tells of a whole key."""
    return f"wants {_in_words(wants)}, got {_shown(value)}{example(wants, key, info) if info else ''}"


def example(wants: Any, key: str, info: FieldInfo) -> str:
    """The end of a sentence: a line that would be right."""
    default = None if info.default is msgspec.NODEFAULT else _text(info.default)
    return f"; for example `{key}: {default or _example(wants)}`"


def _in_words(wants: Any) -> str:
    origin, arguments = get_origin(wants), get_args(wants)
    if origin is Annotated:
        return _in_words(arguments[0]) + "".join(_bounds(meta) for meta in arguments[1:])
    if origin is Literal:
        return "one of " + ", ".join(str(option) for option in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(option) for option in arguments)
    if isinstance(wants, type) and issubclass(wants, Enum):
        return "one of " + ", ".join(str(member.value) for member in wants)
    return _WORDS.get(origin or wants, ("keys with values", ""))[0]


def _bounds(meta: Any) -> str:
    if not isinstance(meta, msgspec.Meta):
        return ""
    if meta.description:
        return f" ({meta.description})"
    limits = [("at least", meta.ge), ("above", meta.gt), ("at most", meta.le), ("below", meta.lt)]
    told = [f"{word} {limit}" for word, limit in limits if limit is not None]
    return f" ({', '.join(told)})" if told else ""


def _example(wants: Any) -> str:
    origin, arguments = get_origin(wants), get_args(wants)
    if origin in (Annotated, Union, UnionType):
        return _example(arguments[0])
    if origin is Literal:
        return str(arguments[0])
    if isinstance(wants, type) and issubclass(wants, Enum):
        return str(next(iter(wants)).value)
    return _WORDS.get(origin or wants, ("", "{key: value}"))[1]


def _text(default: Any) -> str | None:
    """A default as the file writes it; None where it would teach nothing."""
    if isinstance(default, Duration):
        return duration_text(default)
    if isinstance(default, Size):
        return size_text(default)
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, str | int | float | Path) else None


def _shown(value: Any) -> str:
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return _WORDS[type(value)][0]
    if isinstance(value, int | float):
        return f"the number {value}"
    # A long text or a URL may hold a password.
    return f"`{value}`" if isinstance(value, str) and len(value) <= _LONGEST_SHOWN and "://" not in value else "a text"
