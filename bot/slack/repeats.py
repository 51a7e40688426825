"""Slack may deliver one press more than once, to the second connection too: it is carried out once."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

REMEMBERED = 1000


class Repeats:
    """By the trigger, which is new for every press, command and submission, or by the event."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()

    def has_seen(self, body: Mapping[str, Any]) -> bool:
        """Whether this very press was taken already; remembers it."""
        key = str(body.get("trigger_id") or body.get("event_id") or "")
        if not key:
            return False
        if key in self._seen:
            return True
        self._seen[key] = None
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return False
