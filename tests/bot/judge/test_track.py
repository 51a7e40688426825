"""Which windows count as a streak, in whatever order they arrive."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.judge.track import NodeTrack, observed, with_held_sample
from tests.build import BOOT, EPOCH, FIRST_WINDOW, OTHER_BOOT, gpu_uuid, observation
from wire.messages import Observation, Verdict

C, H, U = Verdict.CANDIDATE, Verdict.HELD, Verdict.UNKNOWN
UUID = gpu_uuid(0)


def track_of(observations: list[Observation]) -> NodeTrack:
    track = None
    for one in observations:
        track = observed(track, one)
    assert track is not None
    return track


def windows(verdicts: str, first: int = FIRST_WINDOW) -> list[Observation]:
    """One observation per letter: c, h, u, or a dot for a window that never came."""
    named = {"c": C, "h": H, "u": U}
    return [observation(first + i, [named[v]]) for i, v in enumerate(verdicts) if v != "."]


@pytest.mark.parametrize(
    ("verdicts", "streak"),
    [
        ("c", 1),
        ("ccc", 3),
        ("cch", 0),
        ("ccu", 0),
        ("cchccc", 3),
        ("ccuc", 1),
        ("cc.c", 1),
        ("c.ccc", 3),
        ("hhh", 0),
        ("c" * 300, 300),
    ],
)
def test_a_streak_counts_consecutive_candidate_windows_up_to_the_newest(verdicts, streak):
    assert track_of(windows(verdicts)).gpus[UUID].streak == streak


def test_another_boot_begins_a_new_streak():
    track = track_of([*windows("ccc"), observation(5, [C], seq=4, boot_id=OTHER_BOOT)])
    assert track.gpus[UUID].streak == 1


def test_a_late_window_of_an_older_boot_changes_nothing():
    now = track_of([*windows("cc"), observation(5, [C], seq=9, boot_id=OTHER_BOOT)])
    assert observed(now, observation(FIRST_WINDOW + 2, [C], seq=3)) == now


def test_another_window_length_begins_a_new_streak():
    track = track_of([*windows("ccc"), observation(FIRST_WINDOW + 3, [C], window_seconds=600.0)])
    assert track.gpus[UUID].streak == 1


def test_two_reports_of_one_window_count_as_the_one_that_frees_less():
    for order in ([C, H], [H, C]):
        reports = [observation(FIRST_WINDOW + 2, [verdict], seq=9 + i) for i, verdict in enumerate(order)]
        gpu = track_of([*windows("cc"), *reports]).gpus[UUID]
        assert (gpu.streak, gpu.verdict) == (0, H)


def test_a_held_sample_ends_the_streak_and_spoils_its_open_window():
    track = with_held_sample(track_of(windows("cccc")), UUID, FIRST_WINDOW + 4, ())
    assert track.gpus[UUID].streak == 0
    later = observed(track, observation(FIRST_WINDOW + 4, [C]))
    assert later.gpus[UUID].streak == 0
    assert observed(later, observation(FIRST_WINDOW + 5, [C])).gpus[UUID].streak == 1


def test_a_held_sample_of_a_window_that_is_already_past_is_not_forgotten():
    track = with_held_sample(track_of(windows("cccc")), UUID, FIRST_WINDOW + 2, ())
    assert track.gpus[UUID].streak == 1


def test_the_last_holder_survives_a_reboot():
    track = track_of([*windows("hc"), observation(5, [C], seq=3, boot_id=OTHER_BOOT)])
    held = track.gpus[UUID].last_held
    assert held is not None
    assert held.process is not None
    assert (held.process.user, held.number) == ("alice", -1)


def judged_part(track: NodeTrack) -> object:
    gpu = track.gpus[UUID]
    return gpu.candidate_runs, gpu.streak, gpu.newest, gpu.verdict, gpu.evidence, gpu.newest_closed_at


@settings(max_examples=300, deadline=None)
@given(verdicts=st.text("cchu.", min_size=1, max_size=30), data=st.data())
def test_duplicate_late_and_out_of_order_windows_and_a_jumping_wall_clock_change_no_streak(verdicts, data):
    in_order = windows(verdicts)
    if not in_order:
        return
    jump = data.draw(st.sampled_from([timedelta(0), timedelta(hours=-30), timedelta(days=400)]))
    doubled = data.draw(st.lists(st.sampled_from(in_order), max_size=5))
    shuffled = data.draw(st.permutations([*in_order, *doubled]))
    mixed = track_of(shuffled)
    assert judged_part(mixed) == judged_part(track_of(in_order))
    jumped = [
        observation(
            one.window_number,
            [one.gpus[0].verdict],
            started_at=one.started_at + jump * (i % 2),
            closed_at=one.closed_at + jump * (i % 2),
        )
        for i, one in enumerate(in_order)
    ]
    assert track_of(jumped).gpus[UUID].candidate_runs == mixed.gpus[UUID].candidate_runs


def test_runs_of_equal_verdicts_are_kept_for_the_record():
    run = track_of(windows("hhccc")).gpus[UUID].run
    assert run is not None
    assert (run.boot_id, run.verdict, run.first, run.last) == (BOOT, C, FIRST_WINDOW + 2, FIRST_WINDOW + 4)


def test_a_gpu_that_left_keeps_its_newest_window():
    track = track_of([observation(FIRST_WINDOW, [C, C]), observation(FIRST_WINDOW + 1, [C])])
    assert track.gpus[gpu_uuid(1)].newest == FIRST_WINDOW
    assert track.spool_epoch == EPOCH
