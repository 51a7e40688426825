"""What the guard looks at: the node as it is now, and what it has done before."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from agent.runner_reading import CanaryResult
from wire.orders import AcceptedProcess, Action
from wire.remedies import AutoRemedy
from wire.ticks import Tick


class Limit(msgspec.Struct, frozen=True):
    """Not before so long after the last one, and not more often in 24 hours."""

    minimum_interval_seconds: float
    per_day: int


class Allowed(msgspec.Struct, frozen=True):
    """What the node's own config lets anybody do here. `reboot` None: not offered."""

    restarts: Mapping[str, Limit] = {}
    reboot: Limit | None = None
    auto_remedy: AutoRemedy = AutoRemedy.OFF


class Act(msgspec.Struct, frozen=True):
    """Something that was begun on this node, whatever became of it. An action that is not known counts as every one."""

    action: Action
    runner: str
    seconds_ago: float
    is_this_boot: bool


class ProcessesNow(msgspec.Struct, frozen=True):
    """Who is on the GPUs in question. `hidden`: why there may be others, "" where all are known."""

    known: frozenset[AcceptedProcess] = frozenset()
    hidden: str = ""


class Asked(msgspec.Struct, frozen=True):
    """What a canary came to that was sent for this order. `result` None: it could not be sent, and `unsent` says why.

    `is_off`: this runner has no canary, by its config or its kind.
    """

    result: CanaryResult | None = None
    unsent: str = ""
    is_off: bool = False


class Facts(msgspec.Struct, frozen=True):
    """The node now. `now` and `received_at` are by its wall clock, `waited_seconds` since then by the time since boot.

    `under_way` names an order that is being carried out. `tick` is the runner's latest one, None: there is none that
    is of now. `asked` None: no canary was sent yet. `sharing` are other runners that the order's process serves now.
    """

    node: str
    boot_id: str
    spool_epoch: str
    challenge: str
    highest_fence: int
    now: datetime
    received_at: datetime
    allowed: Allowed
    waited_seconds: float = 0.0
    seen: frozenset[str] = frozenset()
    under_way: str = ""
    acts: tuple[Act, ...] = ()
    processes: ProcessesNow = ProcessesNow()
    sharing: tuple[str, ...] = ()
    tick: Tick | None = None
    asked: Asked | None = None
