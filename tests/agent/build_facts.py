"""Builders of what the guard looks at: a node on which the order of tests.build_orders may be carried out."""

from datetime import timedelta

from agent.remedies.facts import Allowed, Asked, Facts, Limit, ProcessesNow
from agent.runner_reading import CanaryResult
from tests.build import BOOT, EPOCH
from tests.build_orders import CHALLENGE, ISSUED, PROCESSES
from tests.build_ticks import hung
from wire.remedies import AutoRemedy
from wire.ticks import CanaryOutcome, Tick

LIMIT = Limit(3600.0, 2)
ALLOWED = Allowed({"chat": LIMIT}, LIMIT, AutoRemedy.OFF)
FAILED = Asked(CanaryResult(CanaryOutcome.TIMEOUT, 75.0, None, "no answer within 75 s"))
CALM = ISSUED + timedelta(seconds=2)


def tick_now(**changes: object) -> Tick:
    """The runner half a minute after what the order says of it: nothing has moved."""
    values: dict[str, object] = {
        "minutes": 17.5,
        "epoch": "b0000000/4321-77",
        "pid": 4321,
        "process_started": "77",
        "completed": 820.0,
        "progress": {"generation_tokens": 412000.0, "kv_cache": 0.25},
    }
    return hung(**{**values, **changes})


def facts_now(**changes: object) -> Facts:
    values: dict[str, object] = {
        "node": "gpu-01",
        "boot_id": BOOT,
        "spool_epoch": EPOCH,
        "challenge": CHALLENGE,
        "highest_fence": 7,
        "now": CALM,
        "received_at": CALM,
        "allowed": ALLOWED,
        "processes": ProcessesNow(frozenset(PROCESSES)),
        "tick": tick_now(),
        "asked": FAILED,
    }
    return Facts(**{**values, **changes})
