"""Reads one section of config.yaml strictly: a wrong key or value is told with its line and the nearest right key."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Protocol, TypeVar, Union, get_args, get_origin, runtime_checkable

import msgspec
from msgspec.structs import FieldInfo, fields

from wire import wanted, yamllines
from wire.units import Duration, Size
from wire.yamllines import Place

__all__ = ["ConfigError", "Duration", "Problem", "SelfChecking", "Size", "load_section"]

SECTIONS = ("agent", "bot")
LARGEST_CHARACTERS = 1_000_000  # more take minutes to be understood, and a device never ends
_MAKE_ONE = "name another with --config, or make one with gpu-oncall init (on a node: gpu-oncall-agent join)"
_SECRET_WORDS = ("token", "secret", "password", "api_key")


class ConfigError(Exception):
    """A config that cannot be used; the text names file, line, key, what is wrong and what to do."""


class Problem(NamedTuple):
    """`key` is the dotted way from the struct that complains, "" for the struct itself; `sentence` ends the line."""

    key: str
    sentence: str


@runtime_checkable
class SelfChecking(Protocol):
    """A section, or a struct inside one, that knows bounds that its types cannot say."""

    def problems(self) -> Iterable[Problem]:
        """Asked only when all types are right."""


Section = TypeVar("Section", bound=msgspec.Struct)


def load_section(path: Path, name: str, section: type[Section]) -> Section:
    """The section `name` of the file as a value of type `section`; raises ConfigError that tells every mistake.

    A missing section means all defaults. The other section must be there under its right name, and is not read.
    """
    document = _document(path)
    reading = _Reading(path, document.lines)
    for key in document.value:
        if key not in SECTIONS:
            reading.tell((key,), f"there is no such section{_nearest(key, SECTIONS)}")
    value = _build(section, document.value.get(name), (name,), reading)
    if not reading.found:
        _ask(value, (name,), reading)
    if reading.found:
        raise ConfigError(reading.text())
    return value  # type: ignore[no-any-return]


@dataclass
class _Reading:
    path: Path
    lines: dict[Place, int]
    found: list[tuple[int, str]] = field(default_factory=list)

    def tell(self, place: Place, sentence: str) -> None:
        line = self._line(place)
        self.found.append((line, f"{self.path}:{line}: {_dotted(place)}: {sentence}"))

    def _line(self, place: Place) -> int:
        """The line of the key, or of the nearest one above it where the value is a default."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def text(self) -> str:
        return "\n".join(text for _, text in sorted(self.found, key=lambda item: item[0]))


def _text(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        text = file.read(LARGEST_CHARACTERS + 1)
    if len(text) > LARGEST_CHARACTERS:
        raise ConfigError(f"{path}: has more than {LARGEST_CHARACTERS:,} characters: this is no config file")
    return text


def _document(path: Path) -> yamllines.Document:
    try:
        document = yamllines.parse(_text(path))
    except OSError as error:
        how = f": {_MAKE_ONE}" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{path}: cannot be read: {error.strerror}{how}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: it is not UTF-8 text") from error
    except yamllines.YamlError as error:
        raise ConfigError(f"{path}:{error.line or 1}: {error.sentence}") from error
    if document.value is None:
        raise ConfigError(f"{path}: the file is empty: it needs a section {' or '.join(f'`{s}:`' for s in SECTIONS)}")
    if not isinstance(document.value, dict):
        raise ConfigError(f"{path}:1: the file must consist of `key: value` lines, beginning with `agent:` or `bot:`")
    return document


def _build(wants: Any, value: Any, place: Place, reading: _Reading, info: FieldInfo | None = None) -> Any:
    """The value as the type `wants`; what is wrong goes to `reading`, and the result is then of no use."""
    struct, optional = _struct_in(wants)
    if struct is not None and (isinstance(value, dict) or (value is None and not optional)):
        return _build_struct(struct, value or {}, place, reading)
    origin, arguments = get_origin(wants), get_args(wants)
    if origin is list and isinstance(value, list):
        return [_build(arguments[0], item, (*place, i), reading) for i, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {key: _build(arguments[1], item, (*place, key), reading) for key, item in value.items()}
    try:
        return msgspec.convert(value, wants, dec_hook=wanted.convert)
    except (msgspec.ValidationError, ValueError):
        reading.tell(place, wanted.sentence(wants, value, str(place[-1]), info))


def _build_struct(struct: type[msgspec.Struct], value: dict[str, Any], place: Place, reading: _Reading) -> Any:
    known = {info.encode_name: info for info in fields(struct)}
    for key in value:
        if key not in known:
            reading.tell((*place, key), f"there is no such key{_secret_hint(key) or _nearest(key, known)}")
    for key, info in known.items():
        if info.required and key not in value:
            reading.tell(place, f"the key {key} is missing{wanted.example(info.type, key, info)}")
    built = {
        info.name: _build(info.type, value[key], (*place, key), reading, info)
        for key, info in known.items()
        if key in value
    }
    return None if reading.found else struct(**built)


def _struct_in(wants: Any) -> tuple[type[msgspec.Struct] | None, bool]:
    """The struct that `wants` is or may be, and whether it may be None too."""
    options = get_args(wants) if get_origin(wants) in (Union, UnionType) else (wants,)
    structs = [option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct)]
    return (structs[0] if structs else None), type(None) in options


def _ask(value: Any, place: Place, reading: _Reading) -> None:
    """Lets every struct inside `value` tell its own problems."""
    if isinstance(value, list | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            _ask(item, (*place, key), reading)
    if not isinstance(value, msgspec.Struct):
        return
    for info in fields(value):
        _ask(getattr(value, info.name), (*place, info.encode_name), reading)
    if isinstance(value, SelfChecking):
        for key, sentence in value.problems():
            reading.tell((*place, *(key.split(".") if key else ())), sentence)


def _dotted(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _nearest(key: str, known: Iterable[str]) -> str:
    """Ends the sentence with the right key that is most like the wrong one, or with all of them."""
    names = list(known)
    close = difflib.get_close_matches(key, names, n=1)
    if close:
        return f"; did you mean `{close[0]}`?"
    return f"; the keys here are {', '.join(names)}"


def _secret_hint(key: str) -> str:
    if not any(word in key.lower() for word in _SECRET_WORDS):
        return ""
    return "; secrets never stand in this file: set them in the environment, or NAME_FILE to a file that holds one"
