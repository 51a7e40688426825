"""The section of `make bench` in docs/performance.md: the table of one run, and how to read it."""

import os
import platform
import sqlite3
from pathlib import Path

_PAGE = """\
## make bench

`make bench` measures and prints this table (about ten minutes), `make bench ARGS=--write` writes this section,
`make bench ARGS=ingest` measures one thing.

{table}
{machine}

### How to read it

- **Every figure was measured several times in one run**; the table has the smallest, the middle and the largest. The
  last line is the machine's own noise: the same loop of integers before, between and after the others. Where it is
  twice as large at one time as at another, so is everything else: compare the *ratios*, which were measured turn by
  turn with what they are compared with, and CPU time rather than wall time when the load is above the number of cores.
- **beside** and **ratio** are another program's figure for the same work and ours as a multiple of it; for `ingest` and
  `drain` that is the limit of what the bot is built on: the libraries alone, which decode and keep the same bytes and
  judge nothing. A p99 is the value that 99 of 100 do not exceed; p50 is the median of the line above it.
- **ingest** leaves the bus out: bytes to rows, tracks and judgements, in transactions of the size that the bot uses,
  each synced to disk. One core: the process and its threads are pinned to it. In every node one GPU changes its verdict
  with every window, which costs more than a real fleet's calm. No heartbeats are heard, so that no cards are opened.
  The database's size is that of this fleet, windows with all that belongs to them; `make scale` has it for a fleet that
  is in use, and memory per node.
- **drain** is a bot that was away: `bot/listen.py` reads a full stream from a real nats-server. The bot is pinned to
  one core; the server may use the others.
- **card** has the bot as a process with its own nats-server, and Slack as the demo's workspace on loopback. What a
  real Slack takes to answer comes on top. The time of gathering (60 s by default) is subtracted. When many nodes become
  free within minutes, one card takes the later ones in, and is edited every 10 s at most: that is not measured.
- **limited** has the outbox with its real pace, the store and Slack's workspace with its rate limits in one process.
  Slack refuses every call for 5 s with "try again in 1 s". What was refused is tried again and stands there once.
- **presses** has the bot's two halves, the store and Slack's workspace in one process: the people, Slack and the bot
  share one core with the windows that are stored. From the moment that the workspace sends a press to the moment that
  the acknowledgement and the visible answer reach it.
- **reports** is one process from start to page: rows as a bot would have written them, in a database that the system
  has in its memory by then.
- **runners** reads four runners at one server in another process, on a page with a thousand lines that are nobody's
  business, moves their clocks on and keeps them on disk. Calls of functions are counted too: that figure is the same on
  every machine, and the tests hold it. What it is compared with fetches the same pages and drops them.
- **agent** is the real program at default rates in an environment of its own, on a library that answers like NVML and
  reads its answers from a file at every call, so that it is slower than a driver that has them ready. CPU time is that
  of all its processes (user and system, from /proc), and the hour is extrapolated from the time that was measured.
  Sampling goes on by a fixed clock, so that an hour has 360 samples, 120 heartbeats and 12 windows; starting is left
  out. PSS counts a page that several programs share in parts: the bench, on the same Python, is one of them. RSS is the
  bound from above.
- **peers** are others for the same 8 GPUs, from requirements/peers.txt in an environment of their own: nvitop-exporter
  on the same library, the others on an nvidia-smi that is written in C on that library and needs 1 ms, so that what
  they cost beyond a real nvidia-smi is seen; with a real one every call costs 10 to 20 ms more, and the agent calls
  none. They take a sample every 10 s, as the agent does, and the hour is reckoned from that. None of them lists
  processes on a GPU as a condition, keeps windows on disk, or judges; `beside` and `ratio` (ours as a multiple of
  theirs) say cost, not worth.
- **prometheus** has Debian's Prometheus and Alertmanager on five readings per GPU, named as dcgm-exporter's; the
  exporters' own cost is left out. Bot and they carry the same fleet in the same minute. The rule
  `utilisation == 0 for 15m` is put before promtool for every recorded reading and every story of a stall: a false word
  calls a GPU idle which is held, or of which nobody can tell.
"""


def report(table: str) -> str:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    machine = (
        f"Measured on {os.cpu_count()} cores ({_processor()}), Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}; load at the end: {load}."
    )
    return _PAGE.format(table=table, machine=machine)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
