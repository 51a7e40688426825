"""One problem that people hear about: `step(incident, event)` gives the next incident and what must leave the bot."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from bot.judge.track import Evidence, LastHeld
from bot.judge.verdict import Because, Presence, Standing

# A closed window may take as long to arrive as a heartbeat may be old; a bot that just started waits as long for one.
PENDING_GRACE = timedelta(seconds=60)
_ON_ITS_WAY = (Because.WINDOW_PENDING, Because.NO_HEARTBEAT)


class Kind(StrEnum):
    CANDIDATE = "candidate"


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


class Incident(msgspec.Struct, frozen=True, omit_defaults=True):
    """A candidate incident: one node, one idle episode.

    `id` is 0 until it is saved. `revision` rises with every change that the card shows; `decision_revision` when a
    person decides something, which makes older buttons stale. People are Slack user ids.
    """

    id: int
    kind: Kind
    node: str
    opened_at: datetime
    gpus: tuple[CardGpu, ...]
    revision: int = 1
    decision_revision: int = 1
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    disputed_by: str | None = None
    disputed_at: datetime | None = None
    closed_at: datetime | None = None


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


class Acknowledged(msgspec.Struct, frozen=True):
    user: str


class SaidInUse(msgspec.Struct, frozen=True):
    """A person says that what the card calls free was in use: our false word."""

    user: str


Event = Judged | Acknowledged | SaidInUse


# --- effects --------------------------------------------------------------------------------------------------------


class ShowCard(msgspec.Struct, frozen=True):
    """The card must show the incident's present revision; `at_once` after a click."""

    at_once: bool = False


class ThreadLine(msgspec.Struct, frozen=True):
    """One line for the card's thread: a key of the language catalogue and its values."""

    key: str
    values: Mapping[str, str]


Effect = ShowCard | ThreadLine
Step = tuple[Incident | None, tuple[Effect, ...]]


def step(incident: Incident | None, event: Event, now: datetime) -> Step:
    """The incident after the event (None: still none) and its effects; the same incident when nothing changed."""
    if isinstance(event, Judged):
        return _judged(incident, event, now)
    if incident is None or incident.closed_at:
        return incident, ()
    if isinstance(event, Acknowledged):
        return _acknowledged(incident, event, now)
    return _said_in_use(incident, event, now)


def _judged(incident: Incident | None, event: Judged, now: datetime) -> Step:
    if incident is None:
        return _opened(event, now)
    on_card = {gpu.uuid: gpu for gpu in incident.gpus}
    moved = [_moved(gpu, event.gpus.get(gpu.uuid), event.windows, now) for gpu in incident.gpus]
    joined = [_joined(facts, now) for uuid, facts in event.gpus.items() if uuid not in on_card and _is_free(facts)]
    gpus = tuple(sorted([*moved, *joined], key=lambda gpu: gpu.index))
    if gpus == incident.gpus:
        return incident, ()
    return _changed(replace(incident, gpus=gpus), on_card, now)


def _opened(event: Judged, now: datetime) -> Step:
    gpus = tuple(_joined(facts, now) for facts in event.gpus.values() if _is_free(facts))
    if not gpus:
        return None, ()
    gpus = tuple(sorted(gpus, key=lambda gpu: gpu.index))
    return Incident(id=0, kind=Kind.CANDIDATE, node=event.node, opened_at=now, gpus=gpus), (ShowCard(),)


def _changed(incident: Incident, before: Mapping[str, CardGpu], now: datetime) -> Step:
    lines = tuple(_line(gpu) for gpu in incident.gpus if _state_of(before, gpu) is not gpu.state)
    if not lines:  # only what the card does not show moved
        return incident, ()
    if all(gpu.state is CardState.LEFT for gpu in incident.gpus):
        incident = replace(incident, closed_at=now)
    return replace(incident, revision=incident.revision + 1), (ShowCard(), *lines)


def _state_of(before: Mapping[str, CardGpu], gpu: CardGpu) -> CardState | None:
    return before[gpu.uuid].state if gpu.uuid in before else None


def _line(gpu: CardGpu) -> ThreadLine:
    return ThreadLine(f"thread.{gpu.state}", {"index": str(gpu.index), "because": gpu.because, "detail": gpu.detail})


def _is_free(facts: GpuFacts) -> bool:
    return facts.standing.presence is Presence.PRESENT


def _joined(facts: GpuFacts, now: datetime) -> CardGpu:
    return CardGpu(
        uuid=facts.uuid,
        index=facts.index,
        model=facts.model,
        state=CardState.CONFIRMED,
        since=facts.since,
        changed_at=now,
        window_seconds=facts.window_seconds,
        streak=facts.standing.streak,
        judged_up_to=facts.newest,
        evidence=facts.evidence,
        last_held=facts.last_held,
    )


def _moved(gpu: CardGpu, facts: GpuFacts | None, windows: int, now: datetime) -> CardGpu:
    if facts is None:
        return _not_judged(gpu, Because.GPU_NOT_REPORTED, "", now)
    presence = facts.standing.presence
    if presence is Presence.PRESENT:
        return _found_free(gpu, facts, windows, now)
    if presence is Presence.ABSENT:
        return _left(gpu, facts.standing, now)
    return _not_judged(gpu, facts.standing.because, facts.standing.detail, now)


def _found_free(gpu: CardGpu, facts: GpuFacts, windows: int, now: datetime) -> CardGpu:
    if gpu.state is CardState.DISPUTED:
        return gpu
    if gpu.state is CardState.LEFT:
        return _joined(facts, now)
    if gpu.state is CardState.NOT_JUDGED and facts.newest - gpu.judged_up_to < windows:
        return gpu  # three new windows in a row, not those from before the gap
    if gpu.state is CardState.NOT_JUDGED:
        return _joined(facts, now)
    return replace(gpu, streak=facts.standing.streak, judged_up_to=facts.newest, pending_since=None)


def _left(gpu: CardGpu, standing: Standing, now: datetime) -> CardGpu:
    if gpu.state is CardState.LEFT:
        return gpu
    detail = standing.reasons[0].code if standing.reasons else standing.detail
    return replace(gpu, state=CardState.LEFT, changed_at=now, because=standing.because, detail=str(detail))


def _not_judged(gpu: CardGpu, because: Because, detail: str, now: datetime) -> CardGpu:
    if gpu.state is not CardState.CONFIRMED:
        return gpu
    if because in _ON_ITS_WAY and gpu.pending_since is None:
        return replace(gpu, pending_since=now)
    if because in _ON_ITS_WAY and gpu.pending_since and now - gpu.pending_since < PENDING_GRACE:
        return gpu
    return replace(gpu, state=CardState.NOT_JUDGED, changed_at=now, because=because, detail=detail, pending_since=None)


def _acknowledged(incident: Incident, event: Acknowledged, now: datetime) -> Step:
    if incident.acknowledged_by:
        return incident, ()
    decided = replace(incident, acknowledged_by=event.user, acknowledged_at=now)
    return _decided(decided), (ShowCard(at_once=True), ThreadLine("thread.acknowledged", {"user": event.user}))


def _said_in_use(incident: Incident, event: SaidInUse, now: datetime) -> Step:
    if incident.disputed_by:
        return incident, ()
    gpus = tuple(_disputed(gpu, now) for gpu in incident.gpus)
    decided = replace(incident, gpus=gpus, disputed_by=event.user, disputed_at=now)
    return _decided(decided), (ShowCard(at_once=True), ThreadLine("thread.said_in_use", {"user": event.user}))


def _disputed(gpu: CardGpu, now: datetime) -> CardGpu:
    if gpu.state not in (CardState.CONFIRMED, CardState.NOT_JUDGED):
        return gpu
    return replace(gpu, state=CardState.DISPUTED, changed_at=now)


def _decided(incident: Incident) -> Incident:
    return replace(incident, revision=incident.revision + 1, decision_revision=incident.decision_revision + 1)
