"""Numbers out of pages: Prometheus text and JSON. What is not a plain finite number was not read."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import jmespath

from wire.ticks import LARGEST_VALUE

_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


class BadPageError(ValueError):
    """A page that cannot be read; the text says why."""


Samples = Mapping[str, list[tuple[dict[str, str], float]]]


def parse_metrics(body: bytes, wanted: frozenset[str]) -> Samples:
    """The samples of the wanted metrics. Raises BadPageError for what is no such page, or one that was cut off."""
    text = _text(body)
    if text.lstrip().startswith(("<", "{")) or "\0" in text:
        raise BadPageError("it is not a page of metrics")
    if text and not text.endswith("\n"):
        raise BadPageError("the page of metrics was cut off")
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for match in _lines_of(wanted).finditer("\n" + text) if wanted else ():
        name, rest = match.groups()
        sample = _sample(rest.strip())
        if sample is None:
            raise BadPageError(f"a line of {name} cannot be read")
        samples.setdefault(name, []).append(sample)
    return samples


def metric_value(samples: Samples, names: Iterable[str], labels: Mapping[str, tuple[str, ...]]) -> float | None:
    """The sum over all samples with these labels, of the first name that is there; None: none is, or one is odd."""
    for name in names:
        matching = [value for has, value in samples.get(name, ()) if all(has.get(k) in v for k, v in labels.items())]
        if matching:
            return plain(math.fsum(matching)) if all(map(math.isfinite, matching)) else None
    return None


def parse_json(body: bytes) -> Any:
    """Raises BadPageError."""
    try:
        return json.loads(_text(body))
    except (ValueError, RecursionError) as error:
        raise BadPageError("it is not JSON" + (", it is HTML" if body.lstrip()[:1] == b"<" else "")) from error


def json_value(document: Any, expression: str) -> float | None:
    """A number; of a list of numbers the sum. None where the expression finds none."""
    try:
        found = compiled(expression).search(document)
    except jmespath.exceptions.JMESPathError:
        return None
    if isinstance(found, list):
        return _sum(found)
    return _number(found)


@lru_cache(maxsize=256)
def compiled(expression: str) -> Any:
    return jmespath.compile(expression)


def plain(value: float) -> float | None:
    """None for what no counter can be: not finite, or beyond what a report may carry."""
    return value if math.isfinite(value) and abs(value) <= LARGEST_VALUE else None


def _sum(found: list[Any]) -> float | None:
    values = [_number(item) for item in found]
    if not values or any(value is None for value in values):
        return None
    return plain(math.fsum(value for value in values if value is not None))


def _number(found: Any) -> float | None:
    return plain(float(found)) if isinstance(found, int | float) and abs(found) <= LARGEST_VALUE else None


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadPageError("it is not text") from error


@lru_cache(maxsize=64)
def _lines_of(wanted: frozenset[str]) -> re.Pattern[str]:
    """One search over the page: most of its lines, often thousands, are none of ours."""
    names = "|".join(re.escape(name) for name in sorted(wanted))
    return re.compile(rf"\n({names})(?=[{{ \t\r\n])([^\n]*)")


def _sample(rest: str) -> tuple[dict[str, str], float] | None:
    """`rest` is what stands behind the name."""
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        inside, separator, rest = rest[1:].rpartition("}")
        if not separator:
            return None
        labels = dict(_LABEL.findall(inside))
    try:
        return labels, float(rest.split()[0])
    except (ValueError, IndexError):
        return None
