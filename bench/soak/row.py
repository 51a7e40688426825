"""A figure at the middle and at the end of a soak, and the most that it may come to."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """By the middle everything is loaded and every cache is full: what grows after it grows for ever.

    `most` is for the end, in words `wanted`; None: it is only shown.
    """

    of: str
    name: str
    unit: str
    middle: float
    end: float
    wanted: str = ""
    most: float | None = None

    def is_broken(self) -> bool:
        return self.most is not None and self.end > self.most

    def said(self) -> str:
        """What a person reads who must find out what grew."""
        end = f"{_short(self.end)} {self.unit}".strip()
        return f"{self.of}: {self.name}: {_short(self.middle)}, then {end}; wanted {self.wanted}"


def growth(of: str, name: str, unit: str, points: tuple[float, float], most: float) -> Row:
    """May grow by `most` from the middle to the end."""
    middle, end = points
    return Row(of, name, unit, middle, end, f"at most {most:g} more", middle + most)


def broken(rows: Sequence[Row]) -> list[str]:
    return [row.said() for row in rows if row.is_broken()]


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = ["| of | figure | middle | end | unit | wanted |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row.of} | {row.name} | {_short(row.middle)} | {_short(row.end)} | {row.unit} | {row.wanted} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _short(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
