"""What stands out, as sentences of the catalogue."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from bot.judge.verdict import Said
from bot.report.model import SLOTS, GpuUse, Report, Sums
from bot.report.usage import added

MOST = 8
ALWAYS_IDLE, BUSY, NIGHTLY_IDLE, OFTEN_UNKNOWN = 0.9, 0.5, 0.9, 0.2
LONGEST_HELD_IDLE = 24 * 3600.0
_LEAST_JUDGED = 24 * 3600.0  # of one GPU: less says nothing
_LEAST_HOURS = 2
_DAY = 24


def findings(gpus: Sequence[GpuUse]) -> list[Said]:
    """The most useful first."""
    by_node = [list(of_node) for _, of_node in groupby(gpus, key=lambda use: use.node)]
    found = [
        *(said for node in by_node for said in _of_node(node)),
        *_held_idle(gpus),
        *(said for node in by_node for said in _unknown(node)),
    ]
    return found[:MOST]


def _of_node(gpus: Sequence[GpuUse]) -> Iterator[Said]:
    judged = [use for use in gpus if use.total.judged >= _LEAST_JUDGED]
    if not judged:
        return
    idle = [use for use in judged if (use.total.idle_share or 0.0) >= ALWAYS_IDLE]
    if len(idle) == len(judged):
        share = added(use.total for use in judged).idle_share or 0.0
        yield Said("report.node_idle", {"node": gpus[0].node, "count": str(len(judged)), "percent": _percent(share)})
        return
    if any((use.total.idle_share or 0.0) < BUSY for use in judged):
        yield from (_one_idle(use) for use in idle)
    yield from _nightly(judged)


def _one_idle(use: GpuUse) -> Said:
    return Said("report.gpu_idle", {**_name(use), "percent": _percent(use.total.idle_share or 0.0)})


def _nightly(gpus: Sequence[GpuUse]) -> Iterator[Said]:
    """Hours of the day in which all GPUs of the node are idle nearly always, and the rest of the day is busy."""
    shares = [_shares_at(gpus, hour) for hour in range(_DAY)]
    idle = [of_hour is not None and min(of_hour) >= NIGHTLY_IDLE for of_hour in shares]
    busy = [of_hour for of_hour in shares if of_hour is not None and max(of_hour) < BUSY]
    run = _longest_run(idle)
    if run is None or not busy:
        return
    first, count = run
    texts = {"node": gpus[0].node, "count": str(len(gpus)), "from": f"{first:02}:00"}
    yield Said("report.nightly", texts | {"until": f"{(first + count) % _DAY:02}:00"})


def _shares_at(gpus: Sequence[GpuUse], hour: int) -> Sequence[float] | None:
    """The GPUs' idle shares at this hour of the day; None where one is not known."""
    shares = [_idle_share(use.slots[slot] for slot in range(hour, SLOTS, _DAY)) for use in gpus]
    known = [share for share in shares if share is not None]
    return known if len(known) == len(shares) else None


def _idle_share(slots: Iterable[Sums | None]) -> float | None:
    return added(one for one in slots if one is not None).idle_share


def _longest_run(hours: Sequence[bool]) -> tuple[int, int] | None:
    """(first hour, how many) of the longest run around the clock; None where none is long enough, or all are."""
    if all(hours):
        return None
    runs, count = [], 0
    for position, is_in in enumerate([*hours, *hours]):
        count = count + 1 if is_in else 0
        runs.append((count, (position - count + 1) % _DAY))
    longest, first = max(runs, key=lambda run: run[0])
    return (first, longest) if longest >= _LEAST_HOURS else None


def _held_idle(gpus: Sequence[GpuUse]) -> Iterator[Said]:
    wasted = sorted((use for use in gpus if use.total.held_idle >= LONGEST_HELD_IDLE), key=lambda u: -u.total.held_idle)
    for use in wasted[:3]:
        yield Said("report.held_idle", {**_name(use), "hours": f"{use.total.held_idle / 3600:.0f}"})


def _unknown(gpus: Sequence[GpuUse]) -> Iterator[Said]:
    total = added(use.total for use in gpus)
    everything = total.judged + total.unknown
    if everything >= _LEAST_JUDGED and total.unknown / everything >= OFTEN_UNKNOWN:
        yield Said("report.unknown", {"node": gpus[0].node, "percent": _percent(total.unknown / everything)})


def _name(use: GpuUse) -> dict[str, str]:
    return {"node": use.node, "gpu": str(use.index) if use.index is not None else use.uuid.removeprefix("GPU-")[:8]}


def _percent(share: float) -> str:
    return f"{share * 100:.0f}"


def is_empty(report: Report) -> bool:
    """Nothing was reported, and nothing happened."""
    return not report.gpus and not report.stalls and not report.free_words.said and not report.free_words.kept_quiet
