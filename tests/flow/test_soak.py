"""The bot over many rounds of GPUs that become free and are taken: memory, handles, database and log stay as they are.

SOAK_ROUNDS sets how many: `make soak` does many more. Retention is seconds, so that each round forgets an older one.
"""

import itertools
import json
import os

import pytest

from bench.scale.place import Place, look_until
from bench.scale.reports import GPUS

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "24"))
NODES = 8
MOST_GROWTH_MIB = 6.0
MOST_DATABASE_GROWTH = 1.3
RETENTION = {"windows": "2s", "hourly": "2s"}


async def one_round(place):
    place.crowd.tell("become_idle", 1.0)
    place.crowd.tell("close_windows", 4, 0.1)  # in the first of them a sample may have seen it in use
    await look_until(lambda: place.free_gpus() == NODES * GPUS, 60, every_seconds=0.1)
    place.crowd.tell("become_busy")
    place.crowd.tell("close_windows", 1, 0.1)
    await look_until(lambda: place.free_gpus() == 0, 60, every_seconds=0.1)


def measured(place, number):
    usages = place.usage()
    return {
        "round": number,
        "bot_pss_mib": round(usages["bot"].pss_mib, 1),
        "broker_pss_mib": round(usages["nats-server"].pss_mib, 1),
        **{f"{name}_handles": count for name, count in place.open_handles().items()},
        "database_mib": round(place.database_mib(), 2),
        "windows": place.stored(),
        "log_bytes": len(place.log()),
    }


@pytest.mark.soak
async def test_neither_memory_nor_handles_nor_database_nor_log_grow(tmp_path):
    quick = {"mode": "demo", "candidates": {"gather": "0s"}, "retention": RETENTION}
    lines = []
    async with Place(tmp_path / "place", NODES, rate_limits=False, **quick) as place:
        place.crowd.tell("connect", 0.1)
        await look_until(lambda: place.crowd.tell("look").connected == NODES, 60)
        for number in range(1, ROUNDS + 1):
            await one_round(place)
            if number % max(1, ROUNDS // 8) == 0:
                lines.append(measured(place, number))
                print(json.dumps(lines[-1]), flush=True)
    first, last = lines[len(lines) // 2 - 1], lines[-1]  # by then everything is loaded and every cache is full
    assert last["bot_pss_mib"] - first["bot_pss_mib"] < MOST_GROWTH_MIB
    assert last["bot_handles"] <= first["bot_handles"] + 4  # as many readers of the database as are needed
    assert last["nats-server_handles"] <= first["nats-server_handles"] + 4
    assert last["database_mib"] <= first["database_mib"] * MOST_DATABASE_GROWTH + 1
    per_round = [after["log_bytes"] - before["log_bytes"] for before, after in itertools.pairwise(lines)]
    assert max(per_round) < 20_000 * max(1, ROUNDS // 8), per_round
