"""A node that folds reading after reading of its runner, and the readings that it mostly sees."""

from datetime import timedelta

from msgspec.structs import replace

from agent.progress import CanaryPlan, Plan, Why, canary_due, fold
from agent.runner_reading import Api, CanaryResult, RunnerProcess, RunnerReading
from tests.build import BOOT, START
from wire.ticks import ApiState, CanaryOutcome, ProcessState, SignalClass, Tick

PLAN = Plan("chat", "vllm", SignalClass.A, 30.0, CanaryPlan(True, {"completed": 1.0, "tokens": 1.0, "kv": 0.0}))
ALIVE = RunnerProcess(ProcessState.ALIVE, 7, "100", 90000.0)
OK = Api(ApiState.OK, 4.0)
BUSY = RunnerReading(api=OK, process=ALIVE, completed=5.0, counters={"tokens": 100.0}, own_demand=2.0)
IDLE = replace(BUSY, own_demand=0.0)
GOOD = CanaryResult(CanaryOutcome.OK, 1.0, 800.0)
LATE = CanaryResult(CanaryOutcome.TIMEOUT, 75.0)
MISSING = replace(BUSY, completed=None, counters={}, missing=("/metrics: no answer within 5 s",))


class Node:
    """Folds reading after reading; time passes by itself."""

    def __init__(self, plan: Plan = PLAN) -> None:
        self.plan, self.memory, self.at, self.boot = plan, None, 1000.0, BOOT

    def sees(self, reading: RunnerReading, times: int = 1, after: float = 30.0) -> Tick:
        for _ in range(times):
            self.at += after
            when = START + timedelta(seconds=self.at)
            self.memory, tick = fold(
                self.memory, reading, self.plan, boot_id=self.boot, at_seconds=self.at, taken_at=when
            )
        self.last = reading
        return tick

    @property
    def due(self) -> Why | None:
        return canary_due(self.memory, self.last, self.plan)


def stalled(minutes: float, plan: Plan = PLAN) -> Node:
    node = Node(plan)
    node.sees(BUSY)
    node.sees(BUSY, round(minutes * 2))
    return node
