"""Faults on demand: what goes wrong with the next calls of a method."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from demo.workspace.state import Json

EVERY_METHOD = "*"
RESPONSE_URL = "response_url"
UPLOAD = "upload"


class Kind(Enum):
    RATE_LIMITED = "ratelimited"
    SERVER_ERROR = "server_error"
    DROPPED = "dropped_before_processing"
    REPLY_LOST = "reply_lost_after_processing"
    SLOW = "slow"
    REFUSED = "refused"


@dataclass
class Fault:
    """Ends after `times` calls or at `until`, whichever comes first; None is no end."""

    method: str
    kind: Kind
    times: int | None = 1
    until: datetime | None = None
    status: int = 500
    text: str = ""
    retry_after: int = 1
    seconds: float = 0.0
    error: str = ""
    fields: Json = field(default_factory=dict)


class Faults:
    """Each maker takes the method (`*` all, `response_url`, `upload`), `times` (None: always) and `for_seconds`.

    Faults of one method apply one after the other, oldest first: a call meets one fault.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._faults: list[Fault] = []

    def rate_limited(
        self, method: str, retry_after: int = 1, times: int | None = 1, for_seconds: float | None = None
    ) -> Fault:
        """HTTP 429 with Retry-After in whole seconds."""
        return self._add(Fault(method, Kind.RATE_LIMITED, times, self._end(for_seconds), retry_after=retry_after))

    def server_error(
        self,
        method: str,
        status: int = 500,
        text: str = "upstream connect error",
        times: int | None = 1,
        for_seconds: float | None = None,
    ) -> Fault:
        """A 5xx with a body that is no JSON."""
        return self._add(Fault(method, Kind.SERVER_ERROR, times, self._end(for_seconds), status=status, text=text))

    def drop(self, method: str, times: int | None = 1, for_seconds: float | None = None) -> Fault:
        """The connection breaks before the call had any effect."""
        return self._add(Fault(method, Kind.DROPPED, times, self._end(for_seconds)))

    def lose_reply(self, method: str, times: int | None = 1, for_seconds: float | None = None) -> Fault:
        """The call has its effect; the connection breaks before the answer."""
        return self._add(Fault(method, Kind.REPLY_LOST, times, self._end(for_seconds)))

    def slow(self, method: str, seconds: float, times: int | None = 1, for_seconds: float | None = None) -> Fault:
        """The effect is immediate, the answer comes `seconds` later."""
        return self._add(Fault(method, Kind.SLOW, times, self._end(for_seconds), seconds=seconds))

    def refuse(
        self, method: str, error: str, times: int | None = 1, for_seconds: float | None = None, **fields: object
    ) -> Fault:
        """`ok: false` with this error, such as `invalid_blocks`, `missing_scope` or `internal_error`."""
        return self._add(Fault(method, Kind.REFUSED, times, self._end(for_seconds), error=error, fields=dict(fields)))

    def clear(self) -> None:
        self._faults.clear()

    def take(self, method: str) -> Fault | None:
        """The fault that this call meets; counts it."""
        self._faults = [fault for fault in self._faults if not self._is_over(fault)]
        for fault in self._faults:
            if fault.method in (method, EVERY_METHOD):
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def _end(self, for_seconds: float | None) -> datetime | None:
        return None if for_seconds is None else self._now() + timedelta(seconds=for_seconds)

    def _is_over(self, fault: Fault) -> bool:
        spent = fault.times is not None and fault.times <= 0
        return spent or (fault.until is not None and self._now() >= fault.until)
