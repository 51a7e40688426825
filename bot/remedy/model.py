"""One request for a remedy, what can happen to it, and what is said because of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from bot.judge.verdict import Said
from wire.orders import AcceptedProcess, Action, OrderVerdict, RunnerFacts
from wire.remedies import OrderState


class State(StrEnum):
    """Where a request stands; it never goes back, and nothing leads to SENDING twice."""

    ASKED = "asked"  # waits for approvals
    COUNTING = "counting"  # asked by a policy: carried out unless somebody stops it
    APPROVED = "approved"  # the order may be sent, once every blocker was asked again
    SENDING = "sending"  # committed before the order leaves: from here on nobody sends it again
    UNANSWERED = "unanswered"  # sent, perhaps; the node's own word decides
    ACCEPTED = "accepted"  # the node took it; now it must be proved
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"  # by the node's guard: nothing was done
    VOID = "void"  # a blocker stood in the way at the last moment: nothing was sent
    EXPIRED = "expired"
    DENIED = "denied"
    STOPPED = "stopped"  # a countdown that a person stopped
    OUTCOME_UNKNOWN = "outcome_unknown"


ENDED = frozenset(
    {
        State.DONE,
        State.FAILED,
        State.REFUSED,
        State.VOID,
        State.EXPIRED,
        State.DENIED,
        State.STOPPED,
        State.OUTCOME_UNKNOWN,
    }
)
SENT = frozenset({State.SENDING, State.UNANSWERED, State.ACCEPTED})


class Approval(msgspec.Struct, frozen=True):
    """`by` is a Slack user id or host:<user>."""

    by: str
    at: datetime


class Stage(StrEnum):
    """One part of the proof. A reply of the node is none."""

    REBOOTED = "rebooted"
    GPUS = "gpus"
    HEALTHY = "healthy"
    RESTARTED = "restarted"
    WORKS = "works"


class ProofStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """`done_at` None: not seen yet. `detail` says how far it is, in place of a plain tick."""

    stage: Stage
    deadline: datetime
    done_at: datetime | None = None
    detail: Said | None = None


class Times(msgspec.Struct, frozen=True):
    """How long things may take. `loading` is for a model that loads after the proof's other steps."""

    approval: timedelta = timedelta(minutes=10)
    countdown: timedelta = timedelta(minutes=10)
    order: timedelta = timedelta(seconds=180)
    proof: timedelta = timedelta(minutes=15)
    loading: timedelta = timedelta(minutes=30)


class Remedy(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request: made once, approved once, sent at most once.

    `asked_by` is a Slack user id, host:<user>, or "" for the policy whose line is `policy`. `about` is the incident
    that it is to end; None: there is no evidence of a stall. `boot_id`, `spool_epoch`, `processes`, `gpus` and `facts`
    are those that the approver saw. `accepted` are blockers that the one who asked accepted by name.
    `counting_since` None: the countdown does not run. `is_lost`: the node itself does not know what became of it.
    `because` says why it ended as it did.
    """

    action: Action
    node: str
    group: str
    asked_by: str
    asked_at: datetime
    expires_at: datetime
    reason: str
    boot_id: str
    spool_epoch: str
    times: Times
    runner: str = ""
    about: int | None = None
    policy: str = ""
    needed: int = 1
    processes: tuple[AcceptedProcess, ...] = ()
    shown: tuple[Said, ...] = ()
    gpus: tuple[str, ...] = ()
    sick: tuple[str, ...] = ()
    verdict: OrderVerdict = OrderVerdict.NONE
    facts: RunnerFacts | None = None
    accepted: tuple[str, ...] = ()
    is_own_host: bool = False
    state: State = State.ASKED
    approvals: tuple[Approval, ...] = ()
    counting_since: datetime | None = None
    order_id: str = ""
    fence: int = 0
    sent_at: datetime | None = None
    order_expires_at: datetime | None = None
    is_lost: bool = False
    proof: tuple[ProofStep, ...] = ()
    because: tuple[Said, ...] = ()
    ended_by: str = ""
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


# --- events ---------------------------------------------------------------------------------------------------------


class Approve(msgspec.Struct, frozen=True):
    """Whoever it is may approve: that was decided before."""

    by: str
    reason: str = ""


class Needed(msgspec.Struct, frozen=True):
    """So many approvals the config wants now; a request never needs fewer than when it was asked for."""

    count: int


class Deny(msgspec.Struct, frozen=True):
    by: str
    reason: str = ""


class Stop(msgspec.Struct, frozen=True):
    """A person ends a countdown, or the kill switch ends what was not sent."""

    by: str


class Counted(msgspec.Struct, frozen=True):
    """Whether the countdown may run: its card is in Slack, and a click could arrive.

    `at` is when that was looked at, None: now. A clock that is set since then moves no countdown.
    """

    runs: bool
    at: datetime | None = None


class Blocked(msgspec.Struct, frozen=True):
    """What stood in the way when the order was to be sent."""

    by: tuple[Said, ...]


class Send(msgspec.Struct, frozen=True):
    """Written, and committed, before the order leaves."""

    order_id: str
    fence: int


class Answered(msgspec.Struct, frozen=True):
    """The node's own answer to the order; `why` is its sentence where it refused."""

    is_accepted: bool
    why: str = ""


class NobodyThere(msgspec.Struct, frozen=True):
    """The bus says that nobody took the order: it was not carried out, and is never sent again."""


class NoAnswer(msgspec.Struct, frozen=True):
    """No answer came, or this bot was started anew since: nobody knows whether the node has the order."""


class RunnerSeen(msgspec.Struct, frozen=True):
    """A runner by its latest look. `is_loading`: the model loads, which has a deadline of its own."""

    epoch: str
    pid: int | None
    started: str
    works: bool
    is_loading: bool = False


class Seen(msgspec.Struct, frozen=True):
    """The node by its latest heartbeat.

    `word` is what its journal says of the order, None: it does not know it. `gpus` are those that are there, by UUID,
    None: it cannot be read which. `runner` None: no look at it is fresh.
    """

    boot_id: str
    heard_at: datetime
    word: OrderState | None = None
    why: str = ""
    gpus: frozenset[str] | None = None
    sick: frozenset[str] = frozenset()
    runner: RunnerSeen | None = None


class Tick(msgspec.Struct, frozen=True):
    """Time passed, and nothing else happened."""


RemedyEvent = (
    Approve | Needed | Deny | Stop | Counted | Blocked | Send | Answered | NobodyThere | NoAnswer | Seen | Tick
)


class Happened(msgspec.Struct, frozen=True):
    """One line of the record and of the card's thread. `who` is "" for the bot and the node."""

    what: str
    who: str = ""
    why: str = ""
    values: Mapping[str, str] = {}


Step = tuple[Remedy, tuple[Happened, ...]]
