"""What moved since the last tick, after taking our own canaries out."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from agent.progress.memory import Baseline, CanaryPlan
from agent.runner_reading import RunnerReading
from wire.ticks import ApiState, CanaryOutcome, ProcessState

OWN_TICKS = 2  # a page may show our canary one tick late
COMPLETED, DEMAND, OWN_DEMAND = "completed", "demand", "own_demand"
EXPIRES = "expires"  # Ollama's: it moves when a request ends, so it shows nothing finer than completions
COARSE = frozenset({COMPLETED, DEMAND, OWN_DEMAND, EXPIRES})


class Moved(msgspec.Struct, frozen=True):
    """`completed` is the number of others' completions, `amount` that of what rates are made of; None: not compared.

    `missing`: a reading of progress that used to be there was not read; `is_read`: at least one was.
    """

    progress: bool
    completed: float | None
    amount: float | None
    missing: bool
    is_read: bool


def epoch_of(before: Baseline, reading: RunnerReading) -> tuple[Baseline, bool]:
    """The baseline to compare with, and whether this is another life of the runner: nothing of the old one counts."""
    process, exporter = _process(reading), reading.exporter or ""
    is_other = _differs(before.process, process) or _differs(before.exporter, exporter)
    if is_other:
        return Baseline(process=process or before.process, exporter=exporter), True
    return replace(before, process=process or before.process, exporter=exporter or before.exporter), False


def compare(before: Baseline, reading: RunnerReading, canary: CanaryPlan | None) -> tuple[Moved, Baseline]:
    """What moved, and the baseline for the next tick. A counter that fell moves nothing: it is based anew."""
    own, own_ticks = _own(before, reading, canary)
    names, moves = readings_of_progress(reading), dict[str, float]()
    fell_from = {name: value for name, value in before.fell_from.items() if name not in names}
    for name, value in names.items():
        if name not in before.values:
            continue
        change = value - before.values[name]
        if name in reading.gauges:
            moves[name] = 0.0 if own_ticks and name in own else abs(change)
        elif change < 0:
            fell_from[name] = before.values[name]
        elif value != before.fell_from.get(name):
            eaten = min(change, own.get(name, 0.0))
            own[name] = own.get(name, 0.0) - eaten
            moves[name] = change - eaten
    moved = _moved(before, names, moves, reading)
    after = replace(
        before,
        values={**before.values, **names},
        fell_from=fell_from,
        known=before.known | frozenset(names) | frozenset(_demands(reading)),
        load=before.load if reading.load is None else reading.load,
        api_was_ok=before.api_was_ok or (reading.api is not None and reading.api.state is ApiState.OK),
        own=own if own_ticks > 1 else {},
        own_ticks=max(0, own_ticks - 1),
    )
    return moved, after


def readings_of_progress(reading: RunnerReading) -> dict[str, float]:
    completed = {} if reading.completed is None else {COMPLETED: reading.completed}
    return {**completed, **reading.counters, **reading.gauges}


def _moved(before: Baseline, names: Mapping[str, float], moves: dict[str, float], reading: RunnerReading) -> Moved:
    return Moved(
        progress=any(amount > 0 for amount in moves.values()),
        completed=moves.get(COMPLETED),
        amount=_amount(moves, reading),
        missing=bool(before.known - names.keys() - {DEMAND, OWN_DEMAND}),
        is_read=bool(names),
    )


def _amount(moves: Mapping[str, float], reading: RunnerReading) -> float | None:
    """Finer work where it is counted, else completions. What moves only gauges, as a long prefill, is not counted."""
    finer = [amount for name, amount in moves.items() if name in reading.counters]
    if not finer:
        return moves.get(COMPLETED)
    is_uncounted = not any(finer) and any(amount > 0 for amount in moves.values())
    return None if is_uncounted else sum(finer)


def _own(before: Baseline, reading: RunnerReading, canary: CanaryPlan | None) -> tuple[dict[str, float], int]:
    was_good = reading.canary is not None and reading.canary.outcome is CanaryOutcome.OK
    if canary is None or not was_good:
        return dict(before.own), before.own_ticks
    return {name: before.own.get(name, 0.0) + amount for name, amount in canary.adds.items()}, OWN_TICKS


def _demands(reading: RunnerReading) -> Iterator[str]:
    if reading.demand is not None:
        yield DEMAND
    if reading.own_demand is not None:
        yield OWN_DEMAND


def _process(reading: RunnerReading) -> str:
    process = reading.process
    if process is None or process.pid is None or process.state is ProcessState.GONE:
        return ""
    return f"{process.pid}-{process.started}"


def _differs(before: str, now: str) -> bool:
    return bool(before and now and before != now)
