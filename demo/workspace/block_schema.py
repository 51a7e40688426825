"""Small checks that compose: each takes a value and its JSON pointer and returns what Slack would complain about."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Problems = list[str]
Check = Callable[[Any, str], Problems]


def problem(message: str, pointer: str) -> str:
    return f"{message} [json-pointer:{pointer}]"


def string(most: int, least: int = 1, pattern: str | None = None) -> Check:
    """Slack counts characters, not bytes."""

    def check(value: Any, at: str) -> Problems:
        if not isinstance(value, str):
            return [problem("must provide a string", at)]
        if len(value) < least:
            return [problem(f"must be more than {least - 1} characters", at)]
        if len(value) > most:
            return [problem(f"must be less than {most + 1} characters", at)]
        if pattern is not None and not re.fullmatch(pattern, value):
            return [problem(f"must match {pattern}", at)]
        return []

    return check


def whole(least: int, most: int) -> Check:
    def check(value: Any, at: str) -> Problems:
        if isinstance(value, bool) or not isinstance(value, int):
            return [problem("must be an integer", at)]
        return [] if least <= value <= most else [problem(f"must be between {least} and {most}", at)]

    return check


def number(value: Any, at: str) -> Problems:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [] if is_number else [problem("must be a number", at)]


def boolean(value: Any, at: str) -> Problems:
    return [] if isinstance(value, bool) else [problem("must be a boolean", at)]


def anything(value: Any, at: str) -> Problems:
    return []


def one_of(*allowed: str) -> Check:
    def check(value: Any, at: str) -> Problems:
        return [] if value in allowed else [problem(f"must be one of: {', '.join(allowed)}", at)]

    return check


def items(each: Check, least: int, most: int) -> Check:
    def check(value: Any, at: str) -> Problems:
        if not isinstance(value, list):
            return [problem("must be an array", at)]
        if len(value) < least:
            return [problem(f"no fewer than {least} items allowed", at)]
        if len(value) > most:
            return [problem(f"no more than {most} items allowed", at)]
        return [found for index, item in enumerate(value) for found in each(item, f"{at}/{index}")]

    return check


def nullable(check: Check) -> Check:
    return lambda value, at: [] if value is None else check(value, at)


def fields(required: Mapping[str, Check], optional: Mapping[str, Check], *rules: Check) -> Check:
    """An object with these fields and no others; `rules` look at the whole once its fields are right."""
    known = {**required, **optional}

    def check(value: Any, at: str) -> Problems:
        if not isinstance(value, dict):
            return [problem("must be an object", at)]
        found = [problem(f"missing required field: {name}", at) for name in required if value.get(name) is None]
        for name, part in value.items():
            if name not in known:
                found.append(problem(f"invalid additional property: {name}", at))
            elif part is not None:
                found += known[name](part, f"{at}/{name}")
        return found or [more for rule in rules for more in rule(value, at)]

    return check


def tagged(kinds: Mapping[str, Check]) -> Check:
    """An object whose `type` says which check applies."""

    def check(value: Any, at: str) -> Problems:
        if not isinstance(value, dict):
            return [problem("must be an object", at)]
        kind = value.get("type")
        if kind is None:
            return [problem("missing required field: type", at)]
        if kind not in kinds:
            return [problem(f"unsupported type: {kind}", f"{at}/type")]
        return kinds[kind](value, at)

    return check


def exactly_one(*names: str) -> Check:
    def rule(value: Any, at: str) -> Problems:
        given = [name for name in names if value.get(name) is not None]
        return [] if len(given) == 1 else [problem(f"must have exactly one of: {', '.join(names)}", at)]

    return rule


def at_least_one(*names: str) -> Check:
    def rule(value: Any, at: str) -> Problems:
        given = any(value.get(name) for name in names)
        return [] if given else [problem(f"must have at least one of: {', '.join(names)}", at)]

    return rule


def duplicates(values: Iterable[Any]) -> list[Any]:
    """Each value that comes again; None never counts."""
    counted = Counter(value for value in values if value is not None)
    return [value for value, times in counted.items() if times > 1]
