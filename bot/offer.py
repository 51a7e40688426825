"""What may be said of the GPUs of one node to somebody who asks for a free one."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from bot.claims import Claim
from bot.incident import CardGpu, CardState, GpuFacts, Incident, Judged
from bot.judge.candidate import CandidateRule, SeenHeartbeat
from bot.judge.verdict import Because, Presence
from wire.labels import Label, label_of
from wire.messages import AllocationState, GpuNow, GpuWindow, Observation, Verdict
from wire.reasons import ReasonCode


class Offer(StrEnum):
    """In the order of the answer. ALLOCATED: all idle, and a scheduler has given it away. CLAIMED: by a person.

    MAINTAINED: free, and its node is in maintenance, where it may be rebooted at any moment.

    BASELINE_ONLY: all idle but for memory that a truly idle card may show.
    """

    FREE = "free"
    NOT_NOW = "not_now"
    DISPUTED = "disputed"
    ON_THE_WAY = "on_the_way"
    MAINTAINED = "maintained"
    ALLOCATED = "allocated"
    CLAIMED = "claimed"
    BASELINE_ONLY = "baseline_only"


class Offered(msgspec.Struct, frozen=True):
    """One GPU of the answer. `because` says why not now; `again` of `windows` new windows in a row are there by now.

    `memory_bytes` is only known for BASELINE_ONLY, `claim` for CLAIMED, `until` for MAINTAINED.
    """

    offer: Offer
    node: str
    uuid: str
    index: int
    model: str | None
    since: datetime
    idle_seconds: float
    because: Because
    detail: str
    windows: int
    again: int | None = None
    memory_bytes: int | None = None
    claim: Claim | None = None
    until: datetime | None = None


class Known(msgspec.Struct, frozen=True):
    """What is known of one node at the time of the question; None: no open card, no window, no heartbeat.

    `claims` are those that hold now, by GPU UUID; `maintained_until` None: the node is not in maintenance.
    """

    judged: Judged
    card: Incident | None
    newest: Observation | None
    seen: SeenHeartbeat | None
    claims: Mapping[str, Claim] = {}
    maintained_until: datetime | None = None


def offers(known: Known, rule: CandidateRule) -> list[Offered]:
    """The GPUs worth a word, the most useful first."""
    order = list(Offer)
    found = _offers(known, rule)
    return sorted(found, key=lambda one: (order.index(one.offer), one.index))


def _offers(known: Known, rule: CandidateRule) -> Iterator[Offered]:
    cards = {gpu.uuid: gpu for gpu in known.card.gpus} if known.card else {}
    is_heard = known.seen is not None and known.seen.age_seconds <= rule.heartbeat_max_age_seconds
    baseline = {gpu.uuid: gpu for gpu in _baseline_only(known)} if is_heard else {}
    for facts in known.judged.gpus.values():
        offer = _offer(facts, cards.get(facts.uuid), known.judged.windows, is_heard)
        if offer is Offer.FREE and known.maintained_until is not None:
            offer = Offer.MAINTAINED
        if offer is not None:
            yield _offered(known, facts, offer, cards.get(facts.uuid))
        elif facts.uuid in baseline:
            yield _offered(known, facts, Offer.BASELINE_ONLY, None, baseline[facts.uuid].memory_max_bytes)


def _offer(facts: GpuFacts, card: CardGpu | None, windows: int, is_heard: bool) -> Offer | None:
    standing, state = facts.standing, card.state if card else None
    if standing.because is Because.ALLOCATED:
        return Offer.ALLOCATED if standing.streak >= windows else None
    if standing.because is Because.CLAIMED:
        return Offer.CLAIMED
    if standing.presence is Presence.ABSENT:
        return None
    if state is CardState.DISPUTED:
        return Offer.DISPUTED
    if state is CardState.NOT_JUDGED:
        return Offer.NOT_NOW
    if standing.presence is Presence.PRESENT:
        return Offer.FREE
    if standing.streak >= windows:
        return Offer.NOT_NOW
    return Offer.ON_THE_WAY if standing.streak and is_heard else None


def _offered(
    known: Known, facts: GpuFacts, offer: Offer, card: CardGpu | None, memory_bytes: int | None = None
) -> Offered:
    is_present = facts.standing.presence is Presence.PRESENT
    again = facts.newest - card.judged_up_to if offer is Offer.NOT_NOW and card and is_present else None
    return Offered(
        offer=offer,
        node=known.judged.node,
        uuid=facts.uuid,
        index=facts.index,
        model=facts.model,
        since=facts.since,
        idle_seconds=facts.standing.streak * facts.window_seconds,
        because=facts.standing.because,
        detail=facts.standing.detail,
        windows=known.judged.windows,
        again=again,
        memory_bytes=memory_bytes,
        claim=known.claims.get(facts.uuid),
        until=known.maintained_until if offer is Offer.MAINTAINED else None,
    )


def _baseline_only(known: Known) -> Iterable[GpuWindow]:
    """Of the newest window, if it is the one that the node closed last and nothing took the GPU since."""
    if known.newest is None or known.seen is None:
        return []
    if known.seen.heartbeat.last_closed_window != known.newest.window_number:
        return []
    quiet = {now.uuid for now in known.seen.heartbeat.gpus if _is_quiet(now)} - known.claims.keys()
    return [gpu for gpu in known.newest.gpus if gpu.uuid in quiet and is_baseline_only(gpu)]


def _is_quiet(now: GpuNow) -> bool:
    """Nothing but memory speaks against it this moment, and nobody has given it away."""
    is_given = now.allocation is not None and now.allocation.state is not AllocationState.FREE
    codes = {reason.code for reason in now.reasons}
    return (
        now.verdict is not Verdict.UNKNOWN and not is_given and codes <= {ReasonCode.MEMORY_HELD, ReasonCode.ALL_IDLE}
    )


def is_baseline_only(gpu: GpuWindow) -> bool:
    """Strictness about memory is the only thing that keeps this GPU from being a candidate."""
    return label_of(gpu) is Label.BASELINE_ONLY
