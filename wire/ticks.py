"""What a node says of one runner every 30 s: complete by itself, every duration in seconds, None is not measured."""

from typing import Annotated

import msgspec

from wire.values import Count, Instant, Known, Seconds, Sentence, Word

_Share = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Value = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]  # a count of a runner may be a fraction on its page
RunnerName = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-z][0-9a-z-]{0,31}$")]

LARGEST_VALUE = 1e15
LONGEST_SENTENCE = 200
MOST_RUNNERS = 8  # of one node: ten ticks of each must fit into one observation
MOST_SIGNALS = 10
MOST_MISSING = 8
_PRESENT_TICKS = 3
_SHORTEST_PRESENT_SECONDS = 5.0  # of a demo's short ticks: a busy machine is late by more than three


class SignalClass(Known):
    """What can be seen: A finer progress and a canary, B completions and a canary, C a canary only, Q no canary."""

    A = "A"
    B = "B"
    C = "C"
    Q = "Q"
    UNKNOWN = "unknown"


class ApiState(Known):
    OK = "ok"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    STATUS = "status"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class ProcessState(Known):
    """`blocked` is the kernel's D: it waits in the kernel and no signal reaches it."""

    ALIVE = "alive"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    ZOMBIE = "zombie"
    GONE = "gone"
    UNKNOWN = "unknown"


class RunnerState(Known):
    """`unloaded`: it says that it holds no model, so that nothing can be asked of it without loading one."""

    READY = "ready"
    LOADING = "loading"
    PAUSED = "paused"
    UNLOADED = "unloaded"
    UNKNOWN = "unknown"


class CanaryOutcome(Known):
    """`busy` is neither good nor bad; `config` is our own mistake and says nothing about the runner."""

    OK = "ok"
    TIMEOUT = "timeout"
    ERROR = "error"
    BUSY = "busy"
    CONFIG = "config"
    UNKNOWN = "unknown"


class WitnessKind(Known):
    XID = "xid"
    BLOCKED_PROCESS = "blocked_process"
    SURVIVED_KILL = "survived_kill"
    SWEEP_TIMEOUT = "sweep_timeout"
    RECOVERY_ACTION = "recovery_action"
    LOOP_HANGS = "loop_hangs"
    UNKNOWN = "unknown"


class Witness(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Hard evidence that a driver or process is broken. It never makes a stall by itself."""

    kind: WitnessKind
    seen_seconds_ago: Seconds = 0.0
    detail: Sentence = ""


_SHORT = {"seconds": "s", "milliseconds": "ms", "canary": "can", "progress": "prog", "percent": "pct"}
_SHORT |= {"completion": "compl", "completed": "compl", "process": "proc", "outstanding": "out", "unread": "miss"}
_SHORT |= {"utilization": "util", "highest": "max", "lowest": "min", "waiting": "wait", "timeouts": "late"}
_SHORT |= {"unserved": "unsv", "unreadable": "blind", "successes": "good", "signal": "sig", "witnesses": "wits"}
_SHORT |= {"witness": "wit", "demand": "dem", "runner": "run", "detail": "why", "preset": "pre"}


def _short(name: str) -> str:
    """Ten ticks of eight runners go into every report, so names are short on the way; they must stay distinct."""
    return "_".join(_SHORT.get(word, word) for word in name.split("_"))


class Tick(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, rename=_short):
    """One runner at one moment: what was read, and what the node's monotonic clocks say.

    `at_seconds` is the node's time since boot, `taken_at` a label for people, `age_seconds` how old it was when sent.
    `signal_class` is what could really be seen, never better than configured. None for a value: it was not read; for a
    clock: it could not be measured.

    - `waiting_seconds`: somebody waits; `no_progress_seconds`: and nothing moved; `unserved_seconds`: the same, not
      cleared by a good canary; `no_completion_seconds`: nothing was completed while work was there;
    - `loading_seconds`: loading without bytes read or memory change; `paused_seconds`: paused while work waits;
    - `canary_*` counts, `witness_ticks`, GPU extremes and `ticks` are of the run of `no_progress_seconds`;
      `canary_successes` of the run of `unserved_seconds`;
    - `gap_p99_seconds` of `gaps` own gaps between progress while work was there;
    - `usual_per_hour`: what the runner itself completed earlier, while work was there.
    """

    runner: RunnerName
    preset: Word
    signal_class: SignalClass
    at_seconds: Seconds
    taken_at: Instant
    tick_seconds: Seconds
    age_seconds: Seconds = 0.0
    epoch: Word = ""
    # what was read
    api: ApiState | None = None
    api_milliseconds: Seconds | None = None
    api_detail: Sentence = ""
    process: ProcessState | None = None
    pid: Count | None = None
    process_started: Word = ""
    completed: Value | None = None
    progress: Annotated[dict[Word, Value], msgspec.Meta(max_length=MOST_SIGNALS)] = {}
    demand: Value | None = None
    own_demand: Value | None = None
    state: RunnerState = RunnerState.READY
    load: Value | None = None
    gpu_utilization_percent: Count | None = None
    gpu_power_watts: _Share | None = None
    witnesses: Annotated[list[Witness], msgspec.Meta(max_length=MOST_SIGNALS)] = []
    missing: Annotated[list[Sentence], msgspec.Meta(max_length=MOST_MISSING)] = []
    has_moved: bool = False
    # the canary: the last one that ended, and whether one is on its way
    canary: CanaryOutcome | None = None
    canary_seconds_ago: Seconds | None = None
    canary_milliseconds: Seconds | None = None
    canary_detail: Sentence = ""
    canary_outstanding_seconds: Seconds | None = None
    # clocks
    waiting_seconds: Seconds = 0.0
    no_progress_seconds: Seconds = 0.0
    unserved_seconds: Seconds = 0.0
    no_completion_seconds: Seconds | None = None
    api_dead_seconds: Seconds = 0.0
    process_gone_seconds: Seconds = 0.0
    process_gone_ticks: Count = 0
    error_seconds: Seconds = 0.0
    config_error_seconds: Seconds = 0.0
    slow_seconds: Seconds = 0.0
    loading_seconds: Seconds | None = None
    paused_seconds: Seconds = 0.0
    unreadable_seconds: Seconds = 0.0
    last_moved_seconds: Seconds | None = None
    # since the no-progress clock began
    ticks: Count = 0
    canary_timeouts: Count = 0
    canary_errors: Count = 0
    canary_successes: Count = 0
    witness_ticks: Count = 0
    gpu_highest_percent: Count | None = None
    gpu_unread_ticks: Count = 0
    power_lowest_watts: _Share | None = None
    # what this runner did before
    gap_p99_seconds: Seconds | None = None
    gaps: Count = 0
    usual_per_hour: _Share | None = None


def present_seconds(tick_seconds: float) -> float:
    """How long a tick is of now. After a longer gap agent or host slept, and nobody knows what was."""
    return max(_PRESENT_TICKS * tick_seconds, _SHORTEST_PRESENT_SECONDS)


def sentence(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """Foreign text, cut to what a tick may carry, without control characters."""
    return "".join(character if character.isprintable() else " " for character in text)[:longest]
