"""Builders for the guard: orders beside that of tests.build_orders, and a node on which they may be carried out."""

from datetime import timedelta

from msgspec.structs import replace

from agent.remedies.facts import Act, Allowed, Asked, Facts, Limit, ProcessesNow
from agent.runner_reading import CanaryResult
from tests.build import BOOT, EPOCH
from tests.build_orders import CHALLENGE, ISSUED, PROCESSES, order
from tests.build_ticks import hung
from wire.orders import AcceptedProcess, Action, OrderVerdict
from wire.remedies import AutoRemedy
from wire.ticks import CanaryOutcome, Tick

LIMIT = Limit(3600.0, 2)
ALLOWED = Allowed({"chat": LIMIT}, LIMIT, AutoRemedy.OFF)
FAILED = Asked(CanaryResult(CanaryOutcome.TIMEOUT, 75.0, None, "no answer within 75 s"))
CALM = ISSUED + timedelta(seconds=2)
REBOOT = order(Action.REBOOT_NODE)
WITHOUT_STALL = order(Action.REBOOT_NODE, verdict=OrderVerdict.NONE, runner=None, incident_id=0)
POLICY = order(approvers=[], policy="bot.groups.0.auto_remedy: restart_then_reboot", reason="")
POLICY_REBOOT = replace(POLICY, action=Action.REBOOT_NODE)
AUTO = replace(ALLOWED, auto_remedy=AutoRemedy.RESTART_THEN_REBOOT)
RESTARTED = Act(Action.RESTART_RUNNER, "chat", 4000.0, True)
REBOOTED = Act(Action.REBOOT_NODE, "chat", 100.0, True)
NEW = AcceptedProcess(5000, "99")


def answered(outcome: CanaryOutcome) -> Asked:
    return Asked(CanaryResult(outcome, 1.0, 340.0 if outcome is CanaryOutcome.OK else None, "words"))


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
