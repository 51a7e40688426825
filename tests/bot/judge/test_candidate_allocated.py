"""An idle GPU that a scheduler has given away is not free, and what cannot be read of that is never announced."""

import pytest
from msgspec.structs import replace

from bot.judge.candidate import CandidateRule, SeenHeartbeat, judge
from bot.judge.track import observed
from bot.judge.verdict import Because, Presence, Standing
from bot.offer import Offer
from tests.bot.test_offer import facts, offered
from tests.build import FIRST_WINDOW, gpu_uuid, heartbeat, observation
from wire.messages import Allocation, AllocationState, Verdict

C, H, U = Verdict.CANDIDATE, Verdict.HELD, Verdict.UNKNOWN
GIVEN = Allocation(AllocationState.ALLOCATED, "pod ml/train-0")
BLIND = Allocation(AllocationState.UNREADABLE, "kubelet does not answer")
FREE = Allocation(AllocationState.FREE)


def standing(
    allocation: Allocation | None, verdict: Verdict = C, windows: int = 3, age_seconds: float = 5.0
) -> Standing:
    track = None
    for number in range(windows):
        track = observed(track, observation(FIRST_WINDOW + number))
    beat = heartbeat(FIRST_WINDOW + windows - 1, [verdict])
    beat = replace(beat, gpus=[replace(gpu, allocation=allocation) for gpu in beat.gpus])
    return judge(track, track.gpus[gpu_uuid(0)], SeenHeartbeat(beat, age_seconds), CandidateRule())


TABLE = [
    (standing(None), Presence.PRESENT, Because.CONFIRMED),
    (standing(FREE), Presence.PRESENT, Because.CONFIRMED),
    (standing(GIVEN), Presence.ABSENT, Because.ALLOCATED),
    (standing(GIVEN, age_seconds=90.0), Presence.ABSENT, Because.ALLOCATED),
    (standing(GIVEN, windows=1), Presence.ABSENT, Because.ALLOCATED),
    (standing(GIVEN, verdict=H), Presence.ABSENT, Because.SAMPLE_HELD),
    (standing(GIVEN, verdict=U), Presence.ABSENT, Because.ALLOCATED),
    (standing(BLIND), Presence.UNKNOWN, Because.ALLOCATION_UNREADABLE),
    (standing(BLIND, verdict=H), Presence.ABSENT, Because.SAMPLE_HELD),
    (standing(BLIND, verdict=U), Presence.UNKNOWN, Because.SAMPLE_NOT_CANDIDATE),
    (standing(BLIND, windows=2), Presence.UNKNOWN, Because.STREAK_TOO_SHORT),
    (standing(FREE, verdict=U), Presence.UNKNOWN, Because.SAMPLE_NOT_CANDIDATE),
]


@pytest.mark.parametrize(("found", "presence", "because"), TABLE)
def test_a_gpu_is_free_now_only_where_no_scheduler_has_given_it_away(
    found: Standing, presence: Presence, because: Because
) -> None:
    assert (found.presence, found.because) == (presence, because)


def test_it_is_said_to_whom_it_was_given_or_why_that_is_not_known() -> None:
    assert standing(GIVEN).detail == "pod ml/train-0"
    assert standing(BLIND).detail == "kubelet does not answer"
    assert len(standing(Allocation(AllocationState.ALLOCATED, "x" * 5000)).detail) == 120


@pytest.mark.parametrize(
    ("presence", "because", "streak", "expected"),
    [
        (Presence.ABSENT, Because.ALLOCATED, 3, [Offer.ALLOCATED]),
        (Presence.ABSENT, Because.ALLOCATED, 2, []),
        (Presence.UNKNOWN, Because.ALLOCATION_UNREADABLE, 3, [Offer.NOT_NOW]),
    ],
)
def test_an_allocated_gpu_is_shown_under_its_own_label(
    presence: Presence, because: Because, streak: int, expected: list[Offer]
) -> None:
    assert [one.offer for one in offered(facts(presence, because, streak))] == expected
