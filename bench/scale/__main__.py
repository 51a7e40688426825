"""`make scale ARGS=--nodes=10000`: how the bot carries a fleet of that size, phase by phase."""

import argparse
import asyncio
import logging
import os
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.page import write_section
from bench.scale.phases import Phases, Row
from bench.scale.place import Place, slowed_server
from bench.spent import one_core, yardstick_seconds

_HEAD = """\
## make scale

`make scale` prints this table, `make scale ARGS=--write` writes this section, `ARGS=--nodes=1000` plays one size. One
bot with its own nats-server, both as they are installed, and Slack on loopback. The nodes are simulated in processes
beside them, on the same cores: they speak NATS by hand, send what a node with 8 GPUs sends, one window in flight, and
come back after random pauses, as agents do. In the clear on loopback: TLS is not measured. A slow disk is played by
holding up each sync of the server. "Lost" and "refused" are counted in the bot's database after all that nodes ever
closed is there.

"""
SIZES = (100, 1_000, 10_000)
OTHER_HANDLES = 500


def main(given: Sequence[str] | None = None) -> None:
    arguments = _arguments(given)
    logging.basicConfig(level=logging.ERROR)
    _raise_limit(max(arguments.nodes))
    rows: list[Row] = []
    for count in arguments.nodes:
        rows += _measured(count, arguments)
    text = _table(rows)
    print(text)
    if arguments.write:
        write_section("scale", _HEAD + text)


def _measured(count: int, arguments: argparse.Namespace) -> list[Row]:
    print(f"--- {count:,} nodes, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(_phases(Path(folder) / "own", count, arguments, sync_ms=None))
        if count == max(arguments.nodes):
            for sync_ms in arguments.sync_ms:
                rows += asyncio.run(_phases(Path(folder) / f"{sync_ms}ms", count, arguments, sync_ms))
    return rows


async def _phases(folder: Path, count: int, arguments: argparse.Namespace, sync_ms: int | None) -> list[Row]:
    server = slowed_server(folder, sync_ms) if sync_ms is not None else None
    if sync_ms is not None and server is None:
        print("a slow disk cannot be played: there is no strace on this machine", flush=True)
        return []
    async with Place(folder, count, server) as place:
        phases = Phases(place, arguments.seconds)
        await phases.connect()
        if sync_ms is not None:
            await phases.herd(windows=1, label=f", a disk that syncs in {sync_ms} ms more")
            return phases.rows
        await phases.steady()
        await phases.herd(windows=12, label="")
        await phases.mass_idle()
        if not arguments.no_silence:
            await phases.mass_silence()
        return phases.rows


def _table(rows: Sequence[Row]) -> str:
    with one_core():
        yardstick = yardstick_seconds()
    lines = ["| nodes | phase | figure | value | wanted |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {row.nodes:,} | {row.phase} | {row.name} | {row.value} | {row.wanted} |" for row in rows]
    noise = (
        f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; 2 million additions took {yardstick:.2f} s of CPU."
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
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the steady state is watched")
    parser.add_argument("--sync-ms", type=_numbers, default=[2, 10], help="slow disks to play for the largest number")
    parser.add_argument("--no-silence", action="store_true", help="without the phase in which all fall silent")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    return parser.parse_args(given)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


if __name__ == "__main__":
    main()
