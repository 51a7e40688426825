"""YAML text to plain values, with the line of every key; duplicate keys are errors."""

from dataclasses import dataclass
from typing import Any

import yaml

Place = tuple[str | int, ...]
"""The way to a value: keys and list positions from the top of the file."""

# YAML 1.1 takes `no`, `off`, 1:30 and dates for booleans, numbers and dates. A config means the text.
_BOOLEAN_WORDS = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_PLAIN_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp"})


class YamlError(Exception):
    """`line` counts from 1; None where the reader could not tell."""

    def __init__(self, sentence: str, line: int | None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


@dataclass(frozen=True)
class Document:
    value: Any
    lines: dict[Place, int]


def parse(text: str) -> Document:
    """Raises YamlError with one sentence. An empty document has the value None."""
    try:
        loader = yaml.SafeLoader(text)
        top = loader.get_single_node()
        lines: dict[Place, int] = {}
        return Document(None if top is None else _value(loader, top, (), lines, ()), lines)
    except yaml.MarkedYAMLError as error:
        raise _marked(error) from error
    except yaml.reader.ReaderError as error:
        raise YamlError(f"holds a character that YAML forbids: #x{error.character:04x}", None) from error
    except RecursionError as error:
        raise YamlError("is nested too deeply", None) from error


def _marked(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    problem = error.problem or error.context or "it cannot be read"
    if "\\t" in problem:
        return YamlError("a tab stands where YAML wants spaces: indent with spaces only", line)
    return YamlError(f"this is not valid YAML: {problem}", line)


def _value(
    loader: yaml.SafeLoader, node: yaml.Node, place: Place, lines: dict[Place, int], above: tuple[int, ...]
) -> Any:
    if id(node) in above:
        raise YamlError("an anchor contains itself", _line(node))
    lines.setdefault(place, _line(node))
    inside = (*above, id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, place, lines, inside)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*place, i), lines, inside) for i, item in enumerate(node.value)]
    return _scalar(loader, node)


def _mapping(
    loader: yaml.SafeLoader, node: yaml.MappingNode, place: Place, lines: dict[Place, int], above: tuple[int, ...]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlError("a key must be plain text", _line(key_node))
        key = str(key_node.value)
        at = (*place, key)
        if key in result:
            raise YamlError(f"the key {key} is there twice, first in line {lines[at]}", _line(key_node))
        lines[at] = _line(key_node)
        result[key] = _value(loader, value_node, at, lines, above)
    return result


def _scalar(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    quoted_or_text = node.tag in _PLAIN_TAGS
    word = node.tag == "tag:yaml.org,2002:bool" and node.value not in _BOOLEAN_WORDS
    if quoted_or_text or word or ":" in node.value:
        return node.value
    try:
        return loader.construct_object(node)
    except ValueError as error:  # for example an explicit !!int before a word
        raise YamlError(f"this is not valid YAML: {error}", _line(node)) from error


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
