"""The bot over many rounds of GPUs that become free and are taken: memory, handles, database and log stay as they are.

Retention is seconds, so that each round forgets an older one.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.scale.place import Place, look_until
from bench.scale.reports import GPUS
from bench.soak.row import Row, growth

NODES = 8
POINTS = 8  # so often it is measured
# The driver of SQLite keeps up to 128 prepared statements of each connection, and lists of another length are other
# statements: memory creeps up by some MiB until these are full, while the number of Python's objects stays the same.
_MOST_GROWTH_MIB = 4.0
_MOST_HANDLES = 4  # as many readers of the database as are needed
_MOST_DATABASE = 1.3
_MOST_LOG_BYTES = 20_000.0
_DEADLINE_SECONDS = 60.0
_QUICK = {"mode": "demo", "candidates": {"gather": "0s"}, "retention": {"windows": "2s", "hourly": "2s"}}


async def measured(folder: Path, rounds: int) -> list[Row]:
    """Raises TimeoutError when a round does not come to its end."""
    points = []
    async with Place(folder, NODES, rate_limits=False, **_QUICK) as place:
        place.crowd.tell("connect", 0.1)
        await look_until(lambda: place.crowd.tell("look").connected == NODES, _DEADLINE_SECONDS)
        for number in range(1, rounds + 1):
            await _round(place)
            if number % max(1, rounds // POINTS) == 0:
                points.append({"rounds": number, **await asyncio.to_thread(_point, place)})
    return _rows(points)


async def _round(place: Place) -> None:
    place.crowd.tell("become_idle", 1.0)
    place.crowd.tell("close_windows", 4, 0.1)  # in the first of them a sample may have seen it in use
    await look_until(lambda: place.free_gpus() == NODES * GPUS, _DEADLINE_SECONDS, every_seconds=0.1)
    place.crowd.tell("become_busy")
    place.crowd.tell("close_windows", 1, 0.1)
    await look_until(lambda: place.free_gpus() == 0, _DEADLINE_SECONDS, every_seconds=0.1)


def _point(place: Place) -> dict[str, float]:
    usages, handles = place.usage(), place.open_handles()
    return {
        "incidents": place.incidents(),
        "bot_mib": usages["bot"].pss_mib,
        "server_mib": usages["nats-server"].pss_mib,
        "bot_handles": handles["bot"],
        "server_handles": handles["nats-server"],
        "database_mib": place.database_mib(),
        "windows": place.stored(),
        "log_bytes": len(place.log()),
    }


def _rows(points: Sequence[Mapping[str, float]]) -> list[Row]:
    half = len(points) // 2 - 1
    first, middle, end = points[0], points[half], points[-1]

    def both(name: str) -> tuple[float, float]:
        return middle[name], end[name]

    of, server, database = "bot", "its nats-server", both("database_mib")
    log_bytes = (_per_round(first, middle), _per_round(middle, end))
    most_database = database[0] * _MOST_DATABASE + 1
    return [
        Row(of, "rounds", "", *both("rounds")),
        Row(of, "incidents", "", *both("incidents")),
        growth(of, "memory (PSS)", "MiB", both("bot_mib"), _MOST_GROWTH_MIB),
        growth(of, "file handles", "", both("bot_handles"), _MOST_HANDLES),
        Row(of, "database", "MiB", *database, f"at most {_MOST_DATABASE:g} times as much, and 1 MiB", most_database),
        Row(of, "windows kept", "", *both("windows")),
        Row(of, "log per round", "bytes", *log_bytes, f"at most {_MOST_LOG_BYTES:,g}", _MOST_LOG_BYTES),
        Row(server, "memory (PSS)", "MiB", *both("server_mib")),
        growth(server, "file handles", "", both("server_handles"), _MOST_HANDLES),
    ]


def _per_round(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    return (after["log_bytes"] - before["log_bytes"]) / max(1, after["rounds"] - before["rounds"])
