"""`make bench`: measures, prints one table, and writes it down only when asked."""

import argparse
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence

from bench import agent, card, drain, ingest, limited, peers, postgresql, presses, prometheus, reports, runners
from bench.figure import Figure, table
from bench.page import PAGE, write_section
from bench.report import report
from bench.spent import one_core, yardstick_seconds
from bot.run import settle_gc

BENCHES: Mapping[str, Callable[[], list[Figure]]] = {
    "ingest": ingest.measure,
    "postgresql": postgresql.measure,
    "drain": drain.measure,
    "card": card.measure,
    "presses": presses.measure,
    "limited": limited.measure,
    "agent": agent.measure,
    "peers": peers.measure,
    "prometheus": prometheus.measure,
    "runners": runners.measure,
    "reports": reports.measure,
}


def main(given: Sequence[str] | None = None) -> None:
    arguments = _arguments(given)
    logging.basicConfig(level=logging.ERROR)
    settle_gc()
    names = arguments.names or list(BENCHES)
    measured, yardsticks = [], [_yardstick()]
    for name in names:
        measured += [(name, figure) for figure in _timed(name)]
        yardsticks.append(_yardstick())
    noise = Figure("noise: 2 million additions", yardsticks, "s of CPU", "before, between and after the others")
    text = table([*measured, (" ".join(names), noise)])
    print(f"\n{text}\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if arguments.write:
        write_section("bench", report(text))


def _timed(name: str) -> list[Figure]:
    print(f"measuring {name}, load {os.getloadavg()[0]:.1f}", end="", flush=True)
    begun = time.monotonic()
    figures = BENCHES[name]()
    print(f": {time.monotonic() - begun:.0f} s", flush=True)
    return figures


def _yardstick() -> float:
    with one_core():
        return yardstick_seconds()


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHES)}; all when none is given")
    parser.add_argument("--write", action="store_true", help=f"write the figures into docs/{PAGE.name}")
    arguments = parser.parse_args(given)
    for name in arguments.names:
        if name not in BENCHES:
            parser.error(f"there is no bench {name!r}: choose from {', '.join(BENCHES)}")
    return arguments


if __name__ == "__main__":
    main()
