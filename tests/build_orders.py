"""Builders of orders and of what nodes say of them: valid values with as little as possible to say."""

from datetime import UTC, datetime, timedelta

from nacl.signing import SigningKey

from tests.build import BOOT, EPOCH
from wire.orders import AcceptedProcess, Action, Order, OrderVerdict, RunnerFacts
from wire.ticks import SignalClass

ISSUED = datetime(2026, 11, 30, 3, 5, tzinfo=UTC)
KEY = SigningKey(b"a key that only the tests know. ")
OTHER_KEY = SigningKey(b"somebody else's key, not ours.. ")
CHALLENGE = "c0ffee00c0ffee00c0ffee00c0ffee00"
PROCESSES = [AcceptedProcess(4321, "77"), AcceptedProcess(4400, "91")]


def facts(**changes: object) -> RunnerFacts:
    """A vLLM of class A that has hung for 17 minutes."""
    values: dict[str, object] = {
        "runner": "chat",
        "signal_class": SignalClass.A,
        "epoch": "b0000000/4321-77",
        "pid": 4321,
        "started": "77",
        "completed": 820.0,
        "progress": {"generation_tokens": 412000.0, "kv_cache": 0.25},
        "no_progress_seconds": 1020.0,
    }
    return RunnerFacts(**{**values, **changes})


def order(action: Action = Action.RESTART_RUNNER, **changes: object) -> Order:
    """For gpu-01, approved by one person, because of a confirmed stall."""
    values: dict[str, object] = {
        "version": 1,
        "order_id": "0f0e0d0c0b0a09080706050403020100",
        "action": action,
        "node": "gpu-01",
        "boot_id": BOOT,
        "spool_epoch": EPOCH,
        "challenge": CHALLENGE,
        "fence": 7,
        "incident_id": 12,
        "verdict": OrderVerdict.STALLED,
        "issued": ISSUED,
        "expires": ISSUED + timedelta(seconds=180),
        "runner": facts(),
        "processes": PROCESSES,
        "approvers": ["U0123"],
        "reason": "no token for 17 minutes",
    }
    return Order(**{**values, **changes})
