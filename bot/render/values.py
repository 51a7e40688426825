"""Numbers, instants, people and reasons as people read them."""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from bot.judge.verdict import Because
from bot.render.words import Mrkdwn, Words, code
from wire.messages import Process
from wire.reasons import Reason, ReasonCode

MOST_RANGES = 30
_USER_ID = re.compile(r"[UW][A-Z0-9]{2,20}", re.ASCII)
_PLAIN_DETAIL = re.compile(r"[A-Za-z0-9.,% ]{1,40}", re.ASCII)
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def utc(at: datetime) -> str:
    try:
        return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except OverflowError:  # within hours of the first or the last day that there is
        return at.isoformat(" ", "minutes")


def instant(at: datetime) -> Mrkdwn:
    """In the reader's own time zone; UTC where Slack cannot show it."""
    seconds = math.floor(at.timestamp())
    if seconds < 0:
        return Mrkdwn(utc(at))
    return Mrkdwn(f"<!date^{seconds}^{{date_short_pretty}} {{time}}|{utc(at)}>")


def person(user: str) -> Mrkdwn:
    """A Slack user by id. Slack shows the name; an edit of a message notifies nobody."""
    return Mrkdwn(f"<@{user}>") if _USER_ID.fullmatch(user) else code(user, 40)


def length(seconds: float) -> str:
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def memory(value: int) -> str:
    for factor, unit in _UNITS:
        if value >= factor:
            return f"{value / factor:.1f} {unit}" if value < 1 << 60 else f"{value} B"
    return f"{value} B"


def percent(words: Words, value: int | None) -> str:
    return words.plain("value.not_read") if value is None else f"{value} %"


def bytes_or_not_read(words: Words, value: int | None) -> str:
    return words.plain("value.not_read") if value is None else memory(value)


def process(words: Words, shown: Process) -> Mrkdwn:
    """Who, what and which PID, as far as it was read."""
    parts = [words.say("process.pid", pid=shown.pid)]
    if shown.user is not None:
        parts.insert(0, code(shown.user, 40))
    if shown.command is not None:
        parts.append(code(shown.command, 60))
    parts += _places(words, shown)
    if shown.used_memory_bytes is not None:
        parts.append(Mrkdwn(memory(shown.used_memory_bytes)))
    if shown.started_at is not None:
        parts.append(words.say("process.since", since=instant(shown.started_at)))
    return Mrkdwn(", ".join(parts))


def _places(words: Words, shown: Process) -> list[Mrkdwn]:
    """Pod and Slurm job; a container only where it is no pod's."""
    container = shown.container if shown.pod is None else None
    named = (("pod", shown.pod, 60), ("job", shown.job, 20), ("container", container, 60))
    return [words.say(f"process.{kind}", name=code(name, most)) for kind, name, most in named if name is not None]


def reason(words: Words, given: Reason) -> Mrkdwn:
    """The reason as a sentence, with its number."""
    detail = given.detail
    if given.code is ReasonCode.MEMORY_HELD and detail.isascii() and detail.isdigit() and len(detail) < 19:
        detail = memory(int(detail))
    shown = detail if _PLAIN_DETAIL.fullmatch(detail) else code(detail)
    return words.say(f"reason.{given.code}", detail=shown)


def because(words: Words, why: Because, detail: str) -> str:
    """Plain text. `detail` is a number of ours, or for a GPU in use the code of the reason."""
    if why in (Because.WINDOW_HELD, Because.SAMPLE_HELD):
        return words.plain(f"because.{why}", detail=words.plain(f"short.{ReasonCode(detail)}"))
    return words.plain(f"because.{why}", detail=detail or "?")


def index_ranges(indexes: Iterable[int]) -> str:
    """`0–3, 7`; of very many ranges only the first, and how many GPUs are not named."""
    ranges = _ranges(sorted(set(indexes)))
    named = [f"{first}" if first == last else f"{first}–{last}" for first, last in ranges[:MOST_RANGES]]
    left_out = sum(last - first + 1 for first, last in ranges[MOST_RANGES:])
    return ", ".join(named) + (f" + {left_out}" if left_out else "")


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
