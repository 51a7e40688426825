"""When a GPU may be called free now."""

import pytest

from bot.judge.candidate import CandidateRule, SeenHeartbeat, judge
from bot.judge.track import observed
from bot.judge.verdict import Because, Presence
from tests.build import FIRST_WINDOW, OTHER_BOOT, gpu_uuid, heartbeat, observation
from wire.messages import Verdict

C, H, U = Verdict.CANDIDATE, Verdict.HELD, Verdict.UNKNOWN
LAST = FIRST_WINDOW + 2
FRESH = SeenHeartbeat(heartbeat(LAST), 5.0)


def node_track(verdicts=(C, C, C), **changes):
    track = None
    for i, verdict in enumerate(verdicts):
        track = observed(track, observation(FIRST_WINDOW + i, [verdict], **changes))
    return track


def standing(track, seen, rule=CandidateRule()):  # noqa: B008 - frozen
    return judge(track, track.gpus[gpu_uuid(0)], seen, rule)


def test_three_candidate_windows_and_a_fresh_candidate_sample_are_free_now():
    found = standing(node_track(), FRESH)
    assert (found.presence, found.because, found.streak) == (Presence.PRESENT, Because.CONFIRMED, 3)


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        (None, Because.NO_HEARTBEAT),
        (SeenHeartbeat(heartbeat(LAST), 60.1), Because.HEARTBEAT_OLD),
        (SeenHeartbeat(heartbeat(LAST), float("nan")), Because.HEARTBEAT_OLD),
        (SeenHeartbeat(heartbeat(LAST, spool_epoch="f" * 32), 5.0), Because.OTHER_SPOOL),
        (SeenHeartbeat(heartbeat(LAST + 1), 5.0), Because.WINDOW_PENDING),
        (SeenHeartbeat(heartbeat(LAST + 24), 5.0), Because.WINDOW_PENDING),
        (SeenHeartbeat(heartbeat(None), 5.0), Because.WINDOW_PENDING),
        (SeenHeartbeat(heartbeat(LAST, collector="replay"), 5.0), Because.WINDOW_PENDING),  # started anew: its first
        (SeenHeartbeat(heartbeat(LAST, collector="dcgm"), 5.0), Because.WINDOW_PENDING),  # window is not closed yet
        (SeenHeartbeat(heartbeat(LAST, window_seconds=600.0), 5.0), Because.WINDOW_PENDING),
        (SeenHeartbeat(heartbeat(LAST, age_seconds=30.1), 5.0), Because.SAMPLE_OLD),
        (SeenHeartbeat(heartbeat(LAST, [U]), 5.0), Because.SAMPLE_NOT_CANDIDATE),
        (SeenHeartbeat(heartbeat(LAST, []), 5.0), Because.GPU_NOT_REPORTED),
    ],
)
def test_what_is_not_fresh_is_never_free_now(seen, because):
    found = standing(node_track(), seen)
    assert (found.presence, found.because) == (Presence.UNKNOWN, because)


@pytest.mark.parametrize("collector", ["", "nvml"])
def test_a_sample_of_the_source_of_the_windows_is_believed_and_of_an_agent_that_does_not_name_it(collector):
    found = standing(node_track(), SeenHeartbeat(heartbeat(LAST, collector=collector), 5.0))
    assert found.presence is Presence.PRESENT


@pytest.mark.parametrize(
    ("verdicts", "because"),
    [
        ((C, C), Because.STREAK_TOO_SHORT),
        ((C, C, U), Because.WINDOW_NOT_JUDGED),
        ((C, U, C), Because.STREAK_TOO_SHORT),
    ],
)
def test_fewer_than_three_windows_in_a_row_are_not_told(verdicts, because):
    last = FIRST_WINDOW + len(verdicts) - 1
    found = standing(node_track(verdicts), SeenHeartbeat(heartbeat(last), 5.0))
    assert (found.presence, found.because) == (Presence.UNKNOWN, because)


@pytest.mark.parametrize(
    ("track", "seen", "because"),
    [
        (node_track((C, C, C, H)), SeenHeartbeat(heartbeat(LAST + 1), 5.0), Because.WINDOW_HELD),
        (node_track(), SeenHeartbeat(heartbeat(LAST, [H]), 5.0), Because.SAMPLE_HELD),
        (node_track(), SeenHeartbeat(heartbeat(0, boot_id=OTHER_BOOT), 5.0), Because.NEW_BOOT),
        (node_track((H,)), None, Because.WINDOW_HELD),
    ],
)
def test_a_held_window_a_held_sample_and_a_new_boot_each_end_it(track, seen, because):
    found = standing(track, seen)
    assert (found.presence, found.because) == (Presence.ABSENT, because)


def test_windows_of_seconds_are_believed_only_in_demo_mode():
    track, fresh = node_track(window_seconds=2.0), SeenHeartbeat(heartbeat(LAST, window_seconds=2.0), 5.0)
    assert standing(track, fresh).because is Because.WINDOW_TOO_SHORT
    assert standing(track, fresh, CandidateRule(shortest_window_seconds=0)).presence is Presence.PRESENT


def test_recorded_readings_are_believed_only_in_demo_mode():
    track = node_track(collector="replay")
    assert standing(track, FRESH).because is Because.RECORDING
    assert standing(track, FRESH, CandidateRule(believe_recordings=True)).presence is Presence.PRESENT


def test_windows_of_another_source_begin_a_new_streak():
    track = observed(node_track(), observation(LAST + 1, [C], collector="nvidia-smi"))
    assert track.gpus[gpu_uuid(0)].streak == 1
