"""`make scale ARGS=--nodes=10000`: how the bot carries a fleet of that size, phase by phase."""

import argparse
import asyncio
import logging
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.page import write_section
from bench.scale.measured import growth_table, reckoned
from bench.scale.phases import Phases, Row
from bench.scale.place import Place, slow_server
from bench.spent import one_core, yardstick_seconds

_HEAD = """\
## make scale

`make scale` prints these tables, `make scale ARGS=--write` writes this section, `ARGS=--nodes=10000` plays one size
(nine minutes). One bot with its own nats-server, both as they are installed, and Slack on loopback. The nodes are
simulated in processes beside them, on the same cores: they speak NATS by hand, send what a node with 8 GPUs sends,
one window in flight, and come back after random pauses, as agents do. In the clear on loopback: TLS is not measured.
A slow disk is played by holding up each sync of the server. "Lost" and "refused" are counted in the bot's database
after all that nodes ever closed is there. Slow disks and mass silence are played with the largest fleet only.
In this run the steady state was watched for {seconds:g} s (`ARGS=--seconds={seconds:g}`).

"""
_BEYOND = """\
### 100,000 nodes

Reckoned from the largest fleet above, by the same command: each figure times as many nodes, were a larger fleet only
more of the same. Nothing here was played.

{table}
No bot carries such a fleet alone: one process judges on one core, and one database has one writer. It is cut into
parts, each of whole sites or racks, so that "many nodes at once" and a group's people stay in one part:

- **one bot per part**, with its own `data_dir` (keys, `nodes/`), its own database (a file, or one database of a
  PostgreSQL server for each) and its own channels or groups of people. Parts know nothing of each other: no card
  speaks for two of them, and each has its own weekly report.
- **one stream, one pair of accounts and one signing key per part**: names of streams and subjects are the same in
  all, so that two bots must never share an account. `gpu-oncall bus print-config` writes the servers of one bot; with
  an external cluster that is a cluster of three for each part. To put several parts on one cluster, its accounts must
  be named apart by hand, which no command of ours does.
- **nodes choose their part by `agent.bus.servers`** and join there; moving one is a new join.
- **Slack** takes about one message a second in a channel and one app's 300 a minute in all: parts with apps and
  channels of their own do not wait for each other.
"""
SIZES = (100, 1_000, 10_000)
OTHER_HANDLES = 500


def main(given: Sequence[str] | None = None) -> None:
    arguments = _arguments(given)
    logging.basicConfig(level=logging.ERROR)
    _raise_limit(max(arguments.nodes))
    played = [_played(count, arguments) for count in arguments.nodes]
    text = _text(played)
    print(text)
    if arguments.write:
        write_section("scale", _HEAD.format(seconds=arguments.seconds) + text)


def _played(count: int, arguments: argparse.Namespace) -> Phases:
    print(f"--- {count:,} nodes, load {os.getloadavg()[0]:.1f}", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        phases = asyncio.run(_phases(Path(folder), count, arguments))
    print(f"--- {count:,} nodes took {time.monotonic() - begun:.0f} s", flush=True)
    return phases


async def _phases(folder: Path, count: int, arguments: argparse.Namespace) -> Phases:
    is_largest = count == max(arguments.nodes)
    async with Place(folder / "place", count, slow_server(folder / "slow") if is_largest else None) as place:
        phases = Phases(place, arguments.seconds)
        await phases.connect()
        await phases.steady()
        if is_largest:
            for sync_ms in arguments.sync_ms:
                await phases.slow_herd(sync_ms)
        await phases.herd(windows=12, label="")
        await phases.mass_idle()
        if is_largest and not arguments.no_silence:
            await phases.mass_silence()
        phases.note_peaks()
        return phases


def _text(played: Sequence[Phases]) -> str:
    """What one fleet came to, how it grows, and what lies beyond."""
    fleets = [phases.measured for phases in played]
    parts = [_table([row for phases in played for row in phases.rows])]
    if len(fleets) > 1:
        parts.append(f"### How it grows\n\n{growth_table(fleets)}")
    parts.append(_BEYOND.format(table=reckoned(max(fleets, key=lambda one: one.nodes))))
    return "\n".join(parts)


def _table(rows: Sequence[Row]) -> str:
    with one_core():
        yardstick = yardstick_seconds()
    lines = ["| nodes | phase | figure | value | wanted |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {row.nodes:,} | {row.phase} | {row.name} | {row.value} | {row.wanted} |" for row in rows]
    noise = (
        f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; 2 million additions took {yardstick:.3f} s of CPU."
    )
    return "\n".join(lines) + f"\n\n{noise}\n"


def _raise_limit(nodes: int) -> None:
    wanted = nodes + OTHER_HANDLES
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < wanted:
        raise SystemExit(
            f"{nodes:,} nodes want {wanted:,} file handles in the server, the limit is {most:,}: ulimit -n"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--nodes", type=_numbers, default=list(SIZES), help="how many, several with commas")
    parser.add_argument("--seconds", type=float, default=45.0, help="how long the steady state is watched")
    parser.add_argument("--sync-ms", type=_numbers, default=[2, 10], help="slow disks to play for the largest number")
    parser.add_argument("--no-silence", action="store_true", help="without the phase in which all fall silent")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    return parser.parse_args(given)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


if __name__ == "__main__":
    main()
