"""An incident, what can happen to it, and what must leave the bot because of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from bot.incident.kinds import CANDIDATES, Kind, Urgency, has_node, severity, wakes_people
from bot.judge.track import Evidence, LastHeld
from bot.judge.verdict import Because, Presence, Said, Standing
from bot.remedy.model import Remedy, RemedyEvent, State
from wire.orders import Action


class CardState(StrEnum):
    """Where one GPU of a candidate card stands."""

    CONFIRMED = "confirmed"
    NOT_JUDGED = "not_judged"
    DISPUTED = "disputed"  # a person says that it is in use: not called free again until it was really used
    LEFT = "left"


class CardGpu(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU on a candidate card.

    `since` is when its first candidate window began; `evidence` the windows that confirmed it. For NOT_JUDGED,
    `changed_at` is since when, and `judged_up_to` the newest window then. For LEFT, `because` and `detail` say why.
    """

    uuid: str
    index: int
    model: str | None
    state: CardState
    since: datetime
    changed_at: datetime
    window_seconds: float
    streak: int
    judged_up_to: int
    evidence: tuple[Evidence, ...]
    last_held: LastHeld | None = None
    because: Because = Because.CONFIRMED
    detail: str = ""
    pending_since: datetime | None = None


class QuietWhy(StrEnum):
    SNOOZED = "snoozed"
    NODE_SNOOZED = "node_snoozed"
    MAINTENANCE = "maintenance"
    NOT_POSTED = "not_posted"  # the config does not want this verdict in Slack
    REMEDY = "remedy"  # what a reboot that people approved brings with it; its own card tells how it goes


class Quiet(msgspec.Struct, frozen=True, omit_defaults=True):
    """What keeps an incident from being said. `until` None: as long as the config says so. `by` is "" for the config.

    `up_to` is the severity that it keeps quiet: something worse is said.
    """

    why: QuietWhy
    up_to: int
    until: datetime | None = None
    by: str = ""
    reason: str = ""


class Opening(msgspec.Struct, frozen=True):
    """How an incident opens, or turns into another verdict: kept quiet, or on the card of the incident `shown_on`."""

    quiet: Quiet | None = None
    shown_on: int | None = None


_PLAINLY = Opening()


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a judge says of one subject, and what its card shows: every kind but candidates.

    `what` is the verdict, for most kinds the kind itself. `since` is since when it holds. `title` holds the facts of
    the card's first line; `lines` why we say so; `last_known` what was known before. For ABSENT, `lines` say what
    ended it. `changed_at` is set by `step`: when the present `presence` and `what` began. `remedies` are those that its
    card offers.
    """

    kind: Kind
    subject: str
    presence: Presence
    what: str
    since: datetime
    title: Said
    lines: tuple[Said, ...] = ()
    last_known: tuple[Said, ...] = ()
    changed_at: datetime | None = None
    opening: Opening = _PLAINLY
    remedies: tuple[Action, ...] = ()


class Tried(msgspec.Struct, frozen=True):
    """A remedy that was to end this incident: its own incident's number, and where it stands."""

    number: int
    action: Action
    state: State


class Incident(msgspec.Struct, frozen=True, omit_defaults=True):
    """One problem. `subject` is a node, node/runner, "fleet" or "bot"; at most one is open for each kind and subject.

    `id` is 0 until it is saved. `revision` rises with every change that the card shows; `decision_revision` when a
    person decides something, which makes older buttons stale. People are Slack user ids.

    Candidates have `gpus`; groups (many incidents on one card) `members` and `members_open`; a request for a remedy
    `remedy`; all others a `finding`. `tried` are the remedies that were to end it, the newest last.
    `shown_on` is the group on whose card it stands, instead of one of its own. `said_at` is since when people may
    have heard of it; None while it was kept quiet from its beginning. `drawn_at` is when its numbers were last taken
    over. `ending` says what ended it.
    """

    id: int
    kind: Kind
    subject: str
    opened_at: datetime
    gpus: tuple[CardGpu, ...] = ()
    finding: Finding | None = None
    members: int = 0
    members_open: int = 0
    shown_on: int | None = None
    said_at: datetime | None = None
    drawn_at: datetime | None = None
    revision: int = 1
    decision_revision: int = 1
    mentions: tuple[str, ...] = ()
    escalated: int = 0
    quiet: Quiet | None = None
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    disputed_by: str | None = None
    disputed_at: datetime | None = None
    disputed_why: str = ""
    ending: tuple[Said, ...] = ()
    closed_at: datetime | None = None
    remedy: Remedy | None = None
    tried: tuple[Tried, ...] = ()

    @property
    def node(self) -> str:
        """The node that it is about; "" for one of the fleet or of the bot."""
        return self.subject.partition("/")[0] if has_node(self.kind) else ""

    @property
    def runner(self) -> str:
        """The runner that it is about, "" for none."""
        return self.subject.partition("/")[2]

    @property
    def what(self) -> str:
        return self.finding.what if self.finding else str(self.kind)

    @property
    def severity(self) -> int:
        return severity(self.what)

    @property
    def wakes_people(self) -> bool:
        return wakes_people(self.what)

    @property
    def urgency(self) -> Urgency:
        if self.kind in CANDIDATES:
            return Urgency.CANDIDATE
        if self.kind is Kind.REMEDY and not self.closed_at:
            return Urgency.APPROVAL
        return Urgency.RECOVERY if self.closed_at else Urgency.CRITICAL


# --- events ---------------------------------------------------------------------------------------------------------


class GpuFacts(msgspec.Struct, frozen=True):
    """What is known of one GPU at the time of judging; `newest` is its newest window's number."""

    uuid: str
    index: int
    model: str | None
    standing: Standing
    since: datetime
    window_seconds: float
    newest: int
    evidence: tuple[Evidence, ...]
    last_held: LastHeld | None


class Judged(msgspec.Struct, frozen=True):
    """All GPUs of a node were judged. A GPU that is not among them is not known any more."""

    node: str
    gpus: Mapping[str, GpuFacts]
    windows: int
    opening: Opening = _PLAINLY


class Members(msgspec.Struct, frozen=True):
    """A group's members changed: how many there are, and how many of them are open. `kind` is the group's."""

    kind: Kind
    total: int
    open: int
    opening: Opening = _PLAINLY


class Folded(msgspec.Struct, frozen=True):
    """Its card was not posted yet, or it was kept quiet until now: it stands on the group's card from now on."""

    shown_on: int


class TimePassed(msgspec.Struct, frozen=True):
    """Snoozes run out, and what nobody acknowledges is said again.

    `posted_at` is when the card came to Slack; None: it is not there, so nobody is to be reminded of it. `quiet` is
    what else keeps it quiet now: a node's snooze, a maintenance window, the config.
    """

    posted_at: datetime | None = None
    quiet: Quiet | None = None
    again_after: timedelta = timedelta(minutes=10)
    second_after: timedelta = timedelta(minutes=20)


class Acknowledged(msgspec.Struct, frozen=True):
    user: str


class Snoozed(msgspec.Struct, frozen=True):
    user: str
    until: datetime
    reason: str = ""


class Unsnoozed(msgspec.Struct, frozen=True):
    user: str


class SaidInUse(msgspec.Struct, frozen=True):
    """A person says that what the card calls free was in use: our false word."""

    user: str


class NotAStall(msgspec.Struct, frozen=True):
    """A person says that what the card calls stalled works: our false word. It stays open until it works."""

    user: str
    reason: str = ""


class RemedyAsked(msgspec.Struct, frozen=True):
    """Somebody, or a policy, asks for a remedy; `mentions` are those who can approve it."""

    request: Remedy
    mentions: tuple[str, ...] = ()


class RemedyMoved(msgspec.Struct, frozen=True):
    """Something happened to a request for a remedy."""

    event: RemedyEvent


PeopleEvent = Acknowledged | Snoozed | Unsnoozed | SaidInUse | NotAStall
Event = Judged | Finding | Members | Folded | TimePassed | PeopleEvent | RemedyAsked | RemedyMoved | Tried


# --- effects --------------------------------------------------------------------------------------------------------


class ShowCard(msgspec.Struct, frozen=True):
    """The card must show the incident's present revision; `at_once` after a click."""

    at_once: bool = False


class GpuChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """GPUs of a candidate card that changed in the same way in one step, by index; what it says is as in CardGpu."""

    state: CardState
    indexes: tuple[int, ...]
    because: Because = Because.CONFIRMED
    detail: str = ""


class ThreadLine(msgspec.Struct, frozen=True):
    """One line for the card's thread: a key of the language catalogue and its values.

    Of GPUs, `changes` holds every GpuChange of the step as JSON, and the key is that of the first.
    """

    key: str
    values: Mapping[str, str]


class Who(StrEnum):
    ON_CALL = "on_call"
    SECOND = "second"


class Mention(msgspec.Struct, frozen=True):
    """These people must hear of it: by the card where it is posted now, else by the line `key` in its thread."""

    who: Who
    key: str


class Recorded(msgspec.Struct, frozen=True):
    """A row of the record of remedies. `who` is "" for the bot itself."""

    what: str
    who: str = ""
    why: str = ""


Effect = ShowCard | ThreadLine | Mention | Recorded
Step = tuple[Incident | None, tuple[Effect, ...]]
