"""A measured figure with its spread, and the table of all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

_HEADS = ("figure", "min", "median", "max", "unit", "wanted", "beside", "ratio", "the same work each time", "command")


@dataclass(frozen=True)
class Figure:
    """One thing that was measured several times. `wanted` is the limit that the project promises, or "".

    `theirs` is what `peer` needed for the same work; the table shows its median, and ours as a multiple of it.
    """

    name: str
    values: Sequence[float]
    unit: str
    work: str
    wanted: str = ""
    peer: str = ""
    theirs: Sequence[float] = ()


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest of them that so many percent do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def table(figures: Iterable[tuple[str, Figure]]) -> str:
    """Markdown, from (name of the bench, figure)."""
    rows = [_HEADS, tuple("---" for _ in _HEADS), *(_row(bench, figure) for bench, figure in figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _row(bench: str, figure: Figure) -> tuple[str, ...]:
    low, middle, high = (_short(pick(figure.values)) for pick in (min, median, max))
    beside = f"{figure.peer}: {_short(median(figure.theirs))}" if figure.theirs else ""
    command = f"make bench ARGS={bench}"
    return figure.name, low, middle, high, figure.unit, figure.wanted, beside, _ratio(figure), figure.work, command


def _ratio(figure: Figure) -> str:
    """Ours as a multiple of theirs, "" where there is nothing to compare."""
    if not figure.theirs or not median(figure.theirs):
        return ""
    return _short(median(figure.values) / median(figure.theirs))


def _short(value: float) -> str:
    """Three digits are more than any of this is worth."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
