"""Slack may deliver one press more than once, to the second connection too: it is carried out once."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

REMEMBERED = 1000
T = TypeVar("T")


class Repeats:
    """By the trigger, which is new for every press, command and submission, or by the event."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()

    def has_seen(self, body: Mapping[str, Any]) -> bool:
        """Whether this very press was taken already; remembers it."""
        key = _key(body)
        if not key:
            return False
        if key in self._seen:
            return True
        self._seen[key] = None
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return False


class Outcomes(Generic[T]):
    """What one submission comes to: one that is delivered again waits for the outcome of the first."""

    def __init__(self) -> None:
        self._of_press: OrderedDict[str, asyncio.Task[T]] = OrderedDict()

    def of(self, body: Mapping[str, Any], carry_out: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        key = _key(body)
        known = self._of_press.get(key) if key else None
        if known is not None:
            return known
        self._of_press[key] = task = asyncio.create_task(carry_out())
        while len(self._of_press) > REMEMBERED:
            self._of_press.popitem(last=False)
        return task


def _key(body: Mapping[str, Any]) -> str:
    return str(body.get("trigger_id") or body.get("event_id") or "")
