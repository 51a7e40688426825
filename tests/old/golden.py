"""What an older agent sent, for tests that play it again: tests/cases/compat."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot import clock

CASES = Path(__file__).parents[1] / "cases/compat"
VERSIONS = sorted(folder.name for folder in CASES.iterdir() if folder.is_dir())
Json = Any
GROWING = ("wait_s", "no_prog_s", "unsv_s", "no_compl_s", "last_moved_s")  # clocks of a runner that hangs


def golden(version: str, name: str) -> Json:
    return json.loads((CASES / version / f"{name}.json").read_text())


def seconds_since(version: str) -> float:
    """How long ago the reports of that version were made."""
    return (clock.now() - _instant(golden(version, "observation-idle")["closed_at"])).total_seconds()


def later(report: Json, seconds: float, window: int = 0) -> Json:
    """The report as the same agent would have sent it so much later: the same fields, and no others."""
    moved = dict(report)
    for name in ("started_at", "closed_at", "sent_at"):
        if name in moved:
            moved[name] = _text(_instant(report[name]) + timedelta(seconds=seconds))
    for name in ("seq", "window_number", "last_seq", "last_closed_window"):
        if name in moved:
            moved[name] = report[name] + window
    for name in ("ticks", "runners"):
        if name in moved:
            moved[name] = [_later_tick(tick, seconds) for tick in report[name]]
    return moved


def _later_tick(tick: Json, seconds: float) -> Json:
    moved = {**tick, "at_s": tick["at_s"] + seconds, "taken_at": _text(_instant(tick["taken_at"]) + _delta(seconds))}
    return moved | {name: tick[name] + seconds for name in GROWING if tick.get(name)}


def _delta(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
