"""What kinds of incidents there are, how urgent each is, and which is worse than which."""

from enum import IntEnum, StrEnum


class Kind(StrEnum):
    """One kind of problem. RUNNER has a verdict of the stall rule as its `what`; every other kind is its own `what`."""

    CANDIDATE = "candidate"
    FLEET = "fleet"
    RUNNER = "runner"
    GPU_GONE = "gpu_gone"
    GPU_SICK = "gpu_sick"
    NODE_LOST = "node_lost"
    READING_BROKEN = "reading_broken"
    PROCESSES_HIDDEN = "processes_hidden"
    CLOCK_WRONG = "clock_wrong"
    TWO_AGENTS = "two_agents"
    STREAM_BACKLOG = "stream_backlog"
    SLACK_BACKLOG = "slack_backlog"
    MANY_BLIND = "many_blind"
    STORM = "storm"
    REMEDY = "remedy"  # one request for a restart or a reboot


class Urgency(IntEnum):
    """The order in which messages leave. RECOVERY: what is over."""

    APPROVAL = 0
    CRITICAL = 1
    RECOVERY = 2
    CANDIDATE = 3
    HOME = 4


FLEET_SUBJECT = "fleet"
BOT_SUBJECT = "bot"

# One card for many: their members' cards are not posted by themselves.
GROUPS = frozenset({Kind.FLEET, Kind.MANY_BLIND, Kind.STORM})
CANDIDATES = frozenset({Kind.CANDIDATE, Kind.FLEET})
# What the bot cannot see on a node; while one is open, nothing is called free there. Clocks are among them: what a
# card says since when would be wrong.
BLIND = frozenset(
    {Kind.NODE_LOST, Kind.READING_BROKEN, Kind.PROCESSES_HIDDEN, Kind.CLOCK_WRONG, Kind.TWO_AGENTS}
)  # fmt: skip
# Of these, what hides runners too, so that nothing at all is concluded.
HIDES_EVERYTHING = frozenset({Kind.NODE_LOST, Kind.TWO_AGENTS})
_OF_NO_NODE = frozenset({*GROUPS, Kind.STREAM_BACKLOG, Kind.SLACK_BACKLOG})

# By `what`; a higher number is worse. What is not here counts as 1.
_SEVERITY = {
    "degraded": 2,
    "runaway": 2,
    "work_stuck": 3,
    "clock_wrong": 3,
    "processes_hidden": 3,
    "blind": 4,
    "reading_broken": 4,
    "two_agents": 4,
    "stream_backlog": 4,
    "slack_backlog": 4,
    "uncertain": 5,
    "gpu_sick": 5,
    "load_stuck": 6,
    "erroring": 6,
    "gpu_gone": 6,
    "stalled": 7,
    "down": 8,
    "node_lost": 8,
    "many_blind": 8,
    "storm": 8,
}
WORST = max(_SEVERITY.values())
# Verdicts that are worth knowing and wake nobody.
_WAKES_NOBODY = frozenset({"candidate", "fleet", "degraded", "runaway", "work_stuck", "remedy"})


def severity(what: str) -> int:
    return _SEVERITY.get(what, 1)


def wakes_people(what: str) -> bool:
    """Whether people are mentioned for it, and again where nobody acknowledges."""
    return what not in _WAKES_NOBODY


def has_node(kind: Kind) -> bool:
    """Whether its subject names a node, or a runner on one."""
    return kind not in _OF_NO_NODE
