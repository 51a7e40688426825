"""What may be said of a GPU to somebody who asks for a free one."""

from datetime import timedelta

import pytest

from bot.claims import Claim
from bot.incident import CardGpu, CardState, GpuFacts, Incident, Judged, Kind
from bot.judge.candidate import CandidateRule, SeenHeartbeat
from bot.judge.verdict import Because, Presence, Standing
from bot.offer import Known, Offer, is_baseline_only, offers
from tests.build import FIRST_WINDOW, START, gpu_uuid, gpu_window, heartbeat, observation
from wire.messages import Allocation, AllocationState, GpuNow, Process, Verdict
from wire.reasons import Reason, ReasonCode

MIB = 1 << 20
LITTLE = {"memory_max_bytes": 4 * MIB, "processes": [], "reasons": [Reason(ReasonCode.MEMORY_HELD, "4194304")]}


NOW = {"index": 0, "uuid": gpu_uuid(0), "verdict": Verdict.HELD, "reasons": [], "age_seconds": 3.0, "processes": []}
CLAIM = Claim("gpu-01", gpu_uuid(0), 0, "U0ALICE", START, START + timedelta(days=1))


def facts(presence, because, streak, newest=FIRST_WINDOW):
    standing = Standing(presence, because, streak, "x")
    return GpuFacts(gpu_uuid(0), 0, "H100", standing, START, 300.0, newest, (), None)


def card(state, judged_up_to=FIRST_WINDOW - 2):
    gpu = CardGpu(gpu_uuid(0), 0, "H100", state, START, START, 300.0, 3, judged_up_to, ())
    return Incident(1, Kind.CANDIDATE, "gpu-01", START, (gpu,))


def offered(one, shown=None, newest=None, age_seconds=3.0):
    seen = None if age_seconds is None else SeenHeartbeat(heartbeat(FIRST_WINDOW), age_seconds)
    return offers(Known(Judged("gpu-01", {one.uuid: one}, 3), shown, newest, seen), CandidateRule())


FREE = facts(Presence.PRESENT, Because.CONFIRMED, 3)
HELD = facts(Presence.ABSENT, Because.WINDOW_HELD, 0)


@pytest.mark.parametrize(
    ("one", "shown", "age_seconds", "expected"),
    [
        (FREE, None, 3.0, Offer.FREE),
        (FREE, card(CardState.CONFIRMED), 3.0, Offer.FREE),
        (FREE, card(CardState.LEFT), 3.0, Offer.FREE),
        (FREE, card(CardState.DISPUTED), 3.0, Offer.DISPUTED),
        (FREE, card(CardState.NOT_JUDGED), 3.0, Offer.NOT_NOW),
        (HELD, None, 3.0, None),
        (HELD, card(CardState.DISPUTED), 3.0, None),
        (facts(Presence.UNKNOWN, Because.HEARTBEAT_OLD, 3), None, 90.0, Offer.NOT_NOW),
        (facts(Presence.UNKNOWN, Because.NO_HEARTBEAT, 7), None, None, Offer.NOT_NOW),
        (facts(Presence.UNKNOWN, Because.SAMPLE_NOT_CANDIDATE, 3), None, 3.0, Offer.NOT_NOW),
        (facts(Presence.UNKNOWN, Because.WINDOW_NOT_JUDGED, 0), card(CardState.NOT_JUDGED), 3.0, Offer.NOT_NOW),
        (facts(Presence.UNKNOWN, Because.WINDOW_NOT_JUDGED, 0), None, 3.0, None),
        (facts(Presence.UNKNOWN, Because.STREAK_TOO_SHORT, 2), None, 3.0, Offer.ON_THE_WAY),
        (facts(Presence.UNKNOWN, Because.STREAK_TOO_SHORT, 2), None, 90.0, None),  # nobody knows whether it still is
        (facts(Presence.UNKNOWN, Because.STREAK_TOO_SHORT, 2), None, None, None),
    ],
)
def test_only_what_is_confirmed_fresh_and_not_disputed_is_offered_as_free(one, shown, age_seconds, expected):
    assert [found.offer for found in offered(one, shown, None, age_seconds)] == ([expected] if expected else [])


def test_after_a_gap_it_says_how_many_new_windows_there_are():
    (found,) = offered(FREE, card(CardState.NOT_JUDGED))
    assert (found.again, found.windows) == (2, 3)


@pytest.mark.parametrize(
    ("number", "age_seconds", "expected"),
    [(FIRST_WINDOW, 3.0, [Offer.BASELINE_ONLY]), (FIRST_WINDOW - 1, 3.0, []), (FIRST_WINDOW, 90.0, [])],
)
def test_baseline_only_is_said_of_the_window_that_the_node_closed_last(number, age_seconds, expected):
    newest = observation(number, gpus=[gpu_window(Verdict.HELD, **LITTLE)])
    found = offered(HELD, None, newest, age_seconds)
    assert [one.offer for one in found] == expected
    assert all(one.memory_bytes == 4 * MIB for one in found)


MEMORY, PROCESS = Reason(ReasonCode.MEMORY_HELD, "4194304"), Reason(ReasonCode.COMPUTE_PROCESS, "4321")


@pytest.mark.parametrize(
    ("now", "claims", "expected"),
    [
        ({"reasons": [MEMORY]}, {}, [Offer.BASELINE_ONLY]),
        ({"reasons": [MEMORY], "allocation": Allocation(AllocationState.FREE)}, {}, [Offer.BASELINE_ONLY]),
        ({"reasons": [MEMORY, PROCESS]}, {}, []),
        ({"reasons": [Reason(ReasonCode.UTILIZATION, "97"), MEMORY]}, {}, []),
        ({"reasons": [MEMORY], "verdict": Verdict.UNKNOWN}, {}, []),
        ({"reasons": [MEMORY], "allocation": Allocation(AllocationState.ALLOCATED, "pod ml/a")}, {}, []),
        ({"reasons": [MEMORY], "allocation": Allocation(AllocationState.UNREADABLE, "no answer")}, {}, []),
        ({"reasons": [MEMORY]}, {gpu_uuid(0): CLAIM}, []),
        (None, {}, []),
    ],
)
def test_baseline_only_is_not_said_of_one_that_is_taken_allocated_or_claimed_by_now(now, claims, expected):
    gpus = [] if now is None else [GpuNow(**{**NOW, **now})]
    seen = SeenHeartbeat(heartbeat(FIRST_WINDOW, gpus=gpus), 3.0)
    newest = observation(FIRST_WINDOW, gpus=[gpu_window(Verdict.HELD, **LITTLE)])
    known = Known(Judged("gpu-01", {HELD.uuid: HELD}, 3), None, newest, seen, claims)
    assert [one.offer for one in offers(known, CandidateRule())] == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"memory_max_bytes": 64 * MIB}, True),
        ({"memory_max_bytes": 64 * MIB + 1}, False),
        ({"memory_max_bytes": None}, False),
        ({"utilization_max_percent": 1}, False),
        ({"utilization_max_percent": None}, False),
        ({"processes": [Process(1)]}, False),
        ({"processes_cut": 1}, False),
        ({"reasons": [Reason(ReasonCode.MEMORY_HELD, "1"), Reason(ReasonCode.UTILIZATION, "1")]}, False),
    ],
)
def test_baseline_only_means_that_nothing_else_speaks_against_it(changes, expected):
    assert is_baseline_only(gpu_window(Verdict.HELD, **{**LITTLE, **changes})) is expected


def test_what_is_free_comes_first():
    way = facts(Presence.UNKNOWN, Because.STREAK_TOO_SHORT, 1)
    gpus = {"a": way, "b": FREE}
    seen = SeenHeartbeat(heartbeat(FIRST_WINDOW), 1.0)
    found = offers(Known(Judged("gpu-01", gpus, 3), None, None, seen), CandidateRule())
    assert [one.offer for one in found] == [Offer.FREE, Offer.ON_THE_WAY]
    assert found[0].idle_seconds == timedelta(minutes=15).total_seconds()
