"""How the bot is, as one value; and what of it means that it does not work, or hangs."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

STILL_SECONDS = 60.0
HUNG_SECONDS = 300.0
WAY_TO_PEOPLE = frozenset({"slack", "slack sockets", "outbox"})


class Vitals(msgspec.Struct, frozen=True):
    """Ages are in seconds. None: it cannot be told. `waits` is a second bot that another one works for.

    `pending` windows are in the stream and not stored yet. `reds` are the names of what `bot/health.py` calls red;
    `outbox_waiting` messages should be in Slack by now.
    """

    is_bus_connected: bool
    is_database_answering: bool
    waits: bool = False
    has_slack: bool = True
    fence: int | None = None
    read_age_seconds: float = 0.0
    judged_age_seconds: float = 0.0
    pending: int | None = None
    oldest_pending_seconds: float | None = None
    stream_bytes: int | None = None
    stream_max_bytes: int | None = None
    reds: Sequence[str] = ()
    outbox_waiting: int = 0
    outbox_oldest_seconds: float = 0.0
    open_incidents: Mapping[str, int] = {}
    nodes: Mapping[str, int] = {}
    gpus: Mapping[str, int] = {}
    clock_skew_max_seconds: float = 0.0
    counts: Mapping[str, int] = {}


def why_not_working(vitals: Vitals) -> list[str]:
    """Sentences, none when it ingests, judges and reaches people. One that waits needs only its connections."""
    return list(_faults(vitals))


def _faults(vitals: Vitals) -> Iterator[str]:
    if not vitals.is_database_answering:
        yield "the database does not answer"
    if not vitals.is_bus_connected:
        yield "the bus cannot be reached"
    if vitals.waits:
        return
    if vitals.read_age_seconds > STILL_SECONDS:
        yield f"windows were last read from the stream {vitals.read_age_seconds:.0f} s ago"
    if vitals.judged_age_seconds > STILL_SECONDS:
        yield f"open incidents were last judged {vitals.judged_age_seconds:.0f} s ago"
    if vitals.has_slack:
        yield from (f"{name} is red: see gpu-oncall check" for name in vitals.reds if name in WAY_TO_PEOPLE)


def why_hung(vitals: Vitals) -> str | None:
    """A reason to end this process and start another; None while a start would mend nothing."""
    works_outside = vitals.is_database_answering and vitals.is_bus_connected
    if vitals.waits or not works_outside or vitals.judged_age_seconds <= HUNG_SECONDS:
        return None
    return f"nothing was judged for {vitals.judged_age_seconds:.0f} s, although database and bus answer"
