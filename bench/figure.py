"""A measured figure with its spread, and the table of all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

_HEADS = ("figure", "min", "median", "max", "unit", "wanted", "the same work each time", "command")


@dataclass(frozen=True)
class Figure:
    """One thing that was measured several times. `wanted` is the limit that the project promises, or ""."""

    name: str
    values: Sequence[float]
    unit: str
    work: str
    wanted: str = ""


def table(figures: Iterable[tuple[str, Figure]]) -> str:
    """Markdown, from (name of the bench, figure)."""
    rows = [_HEADS, tuple("---" for _ in _HEADS), *(_row(bench, figure) for bench, figure in figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _row(bench: str, figure: Figure) -> tuple[str, ...]:
    low, middle, high = (_short(pick(figure.values)) for pick in (min, median, max))
    return figure.name, low, middle, high, figure.unit, figure.wanted, figure.work, f"make bench ARGS={bench}"


def _short(value: float) -> str:
    """Three digits are more than any of this is worth."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
