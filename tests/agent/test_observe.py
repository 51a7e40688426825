"""Samples fold into windows: a candidate needs nearly all of them, one held sample is enough, the rest is unknown."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.observe import KEPT_PROCESSES, KEPT_REASONS_PER_CODE, Reporter, fold, grid_of, lost, observation, resume
from tests.agent.build_samples import NOON, closed, error, gpu, held, idle, process, sample, unknown, window
from tests.build import EPOCH, OTHER_BOOT, gpu_uuid
from wire import subjects
from wire.messages import Verdict, decode_observation, encode, fit
from wire.reasons import Reason, ReasonCode

IDLE = Reason(ReasonCode.ALL_IDLE)
RESTARTED = Reason(ReasonCode.AGENT_RESTARTED)
UNREADABLE = Reason(ReasonCode.UTILIZATION_UNREADABLE, "[N/A]")
REPORTER = Reporter("gpu-01", "0.1.0", "nvml")


def few(detail: str) -> Reason:
    return Reason(ReasonCode.TOO_FEW_SAMPLES, detail)


def busy(percent: int) -> Reason:
    return Reason(ReasonCode.UTILIZATION, str(percent))


TABLE = {
    "all thirty idle": ([idle()] * 30, False, Verdict.CANDIDATE, [IDLE]),
    "27 of 30 are 90 percent": ([idle()] * 27, False, Verdict.CANDIDATE, [IDLE]),
    "26 of 30 are too few": ([idle()] * 26, False, Verdict.UNKNOWN, [few("26 of 30")]),
    "none at all": ([], False, Verdict.UNKNOWN, [few("0 of 30")]),
    "one held among idle ones": ([idle()] * 29 + [held()], False, Verdict.HELD, [busy(50)]),
    "held, with too few samples": ([held()], False, Verdict.HELD, [busy(50)]),
    "held beats unknown": ([unknown(), held(), unknown()], False, Verdict.HELD, [busy(50)]),
    "of percentages the highest": (
        [held(percent=9), held(percent=10), held(percent=8)],
        False,
        Verdict.HELD,
        [busy(10)],
    ),
    "one unknown among idle ones": ([idle()] * 29 + [unknown()], False, Verdict.UNKNOWN, [UNREADABLE]),
    "unknown and too few": ([unknown()] * 2, False, Verdict.UNKNOWN, [few("2 of 30"), UNREADABLE]),
    "cut, all idle": ([idle()] * 30, True, Verdict.UNKNOWN, [RESTARTED]),
    "cut, few": ([idle()] * 3, True, Verdict.UNKNOWN, [RESTARTED]),
    "cut, but seen held": ([idle()] * 3 + [held()], True, Verdict.HELD, [busy(50)]),
    "cut and unknown": ([unknown()], True, Verdict.UNKNOWN, [RESTARTED, UNREADABLE]),
}


@pytest.mark.parametrize(("samples", "cut", "verdict", "reasons"), TABLE.values(), ids=TABLE.keys())
def test_a_window_is_judged_by_its_samples(samples, cut, verdict, reasons):
    [folded] = fold(closed(*map(sample, samples), cut=cut, gpus=(0,)))
    assert (folded.verdict, folded.reasons) == (verdict, reasons)
    assert (folded.samples, folded.expected_samples) == (len(samples), 30)


def test_a_failed_sample_counts_and_makes_the_window_unknown():
    [folded] = fold(closed(*[sample(idle())] * 29, error("hangs", 0)))
    assert folded.verdict is Verdict.UNKNOWN
    assert folded.reasons == [Reason(ReasonCode.SAMPLE_ERROR, "hangs")]


def test_a_gpu_that_appears_in_the_middle_has_too_few_samples():
    seen = fold(closed(*[sample(idle(0))] * 20, *[sample(idle(0), idle(1))] * 10))
    assert [(each.index, each.verdict) for each in seen] == [(0, Verdict.CANDIDATE), (1, Verdict.UNKNOWN)]
    assert seen[1].reasons == [few("10 of 30")]


def test_a_gpu_that_is_expected_and_never_seen_is_unknown_not_silent():
    seen = fold(closed(*[sample(idle(0))] * 30, gpus=(0, 1)))
    assert [(each.index, each.verdict) for each in seen] == [(0, Verdict.CANDIDATE), (1, Verdict.UNKNOWN)]


def test_maxima_are_of_what_was_read_and_none_when_nothing_was():
    memory = gpu(0, Verdict.HELD, memory_used_bytes=7, utilization_percent=None)
    [folded] = fold(closed(sample(held(percent=3)), sample(memory), sample(unknown())))
    assert (folded.utilization_max_percent, folded.memory_max_bytes) == (3, 7)
    [folded] = fold(closed(sample(unknown()), sample(unknown())))
    assert (folded.utilization_max_percent, folded.memory_max_bytes) == (None, None)


def test_every_process_of_the_window_is_listed_once_and_only_so_many():
    first, second = process(1, command="a"), process(2)
    [folded] = fold(closed(sample(held(processes=(first,))), sample(held(processes=(second, first)))))
    assert folded.processes == [first, second]
    crowd = tuple(process(pid) for pid in range(1, 101))
    [folded] = fold(closed(sample(held(processes=crowd))))
    assert (len(folded.processes), folded.processes_cut) == (KEPT_PROCESSES, 100 - KEPT_PROCESSES)


def test_reasons_that_differ_all_the_time_stay_few():
    pids = [held_by(pid) for pid in range(1, 100)]
    [folded] = fold(closed(*map(sample, pids)))
    assert len(folded.reasons) == KEPT_REASONS_PER_CODE


def held_by(pid: int):
    return gpu(0, Verdict.HELD, Reason(ReasonCode.COMPUTE_PROCESS, str(pid)))


def test_an_observation_says_who_when_and_each_error_once():
    seen = observation(closed(error("hangs", 0), error("hangs", 0), error("gone", 0)), REPORTER, EPOCH, 5)
    assert (seen.node, seen.agent_version, seen.collector) == ("gpu-01", "0.1.0", "nvml")
    assert (seen.spool_epoch, seen.seq, seen.window_number) == (EPOCH, 5, 7)
    assert seen.errors == [Reason(ReasonCode.SAMPLE_ERROR, "hangs"), Reason(ReasonCode.SAMPLE_ERROR, "gone")]
    assert decode_observation(subjects.observations("gpu-01"), encode(seen)) == seen


def test_a_lost_window_is_unknown_for_every_gpu_that_it_had():
    cut_off = lost(closed(gpus=(0, 1)).window, 30)
    assert [each.reasons for each in fold(cut_off)] == [[RESTARTED], [RESTARTED]]
    assert cut_off.closed_at == NOON + timedelta(minutes=5)


# --- after a start ----------------------------------------------------------------------------------------------------

GPUS = closed(gpus=(0,)).window.gpus
KEPT = window(7, gpus=GPUS, last_closed=6)


def test_at_the_first_start_nothing_was_cut_off():
    assert resume(None, window(7)) == (None, window(7))


def test_a_start_in_the_window_that_was_open_goes_on_with_it():
    assert resume(KEPT, window(7)) == (None, KEPT)


def test_a_start_in_a_later_window_publishes_the_one_that_was_cut_off():
    assert resume(KEPT, window(9)) == (KEPT, window(9, gpus=GPUS, last_closed=8))


def test_a_start_after_a_reboot_publishes_it_too_and_begins_counting_anew():
    assert resume(KEPT, window(2, boot_id=OTHER_BOOT)) == (KEPT, window(2, boot_id=OTHER_BOOT, gpus=GPUS))


def test_another_window_length_begins_counting_anew():
    assert resume(KEPT, window(3, window_seconds=600.0)) == (KEPT, window(3, window_seconds=600.0, gpus=GPUS))


def test_a_number_that_was_closed_is_never_opened_again():
    assert resume(KEPT, window(5)) == (None, KEPT)


# --- numbers ----------------------------------------------------------------------------------------------------------

GRID = grid_of("gpu-01", timedelta(minutes=5), timedelta(seconds=10))
LENGTHS = [(300, 10), (300, 5), (60, 1), (2, 0.1), (0.3, 0.1), (86400, 10)]


def test_windows_and_ticks_follow_the_time_since_boot():
    begins = GRID.window_begins_seconds(5)
    assert GRID.window_number(begins) == 5
    assert GRID.window_number(begins - 0.001) == 4
    assert GRID.window_number(begins + 299.999) == 5
    assert GRID.tick_number(begins) == 150
    assert GRID.expected_samples == 30


@given(st.floats(0, 1e9), st.sampled_from(LENGTHS), st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True))
def test_any_time_since_boot_lies_in_exactly_its_window(seconds, lengths, node):
    grid = grid_of(node, timedelta(seconds=lengths[0]), timedelta(seconds=lengths[1]))
    number = grid.window_number(seconds)
    assert number >= 0
    assert timedelta(0) <= grid.offset <= grid.window
    assert grid.window_begins_seconds(number) <= seconds + 1e-6
    assert seconds < grid.window_begins_seconds(number + 1) + 1e-6
    assert grid.window_number(seconds + lengths[0]) - number in (1, 2)  # 2 only by rounding at a boundary


def test_a_fleet_does_not_close_its_windows_all_at_once():
    offsets = [grid_of(f"gpu-{n:04}", timedelta(minutes=5), timedelta(seconds=10)).offset for n in range(1000)]
    by_tenth = [sum(offset // timedelta(seconds=30) == tenth for offset in offsets) for tenth in range(10)]
    assert min(by_tenth) > 60
    assert grid_of("gpu-0001", timedelta(minutes=5), timedelta(seconds=10)).offset == offsets[1]


# --- the fold is total ------------------------------------------------------------------------------------------------

REASONS = st.builds(Reason, st.sampled_from(ReasonCode), st.text(max_size=20))
PROCESSES = st.none() | st.lists(st.builds(process, st.integers(1, 4194304)), max_size=3).map(tuple)
ANY_GPU = st.builds(
    lambda index, verdict, reasons, percent, memory, processes: replace(
        gpu(index, verdict),
        reasons=tuple(reasons),
        utilization_percent=percent,
        memory_used_bytes=memory,
        processes=processes,
    ),
    st.integers(0, 3),
    st.sampled_from(Verdict),
    st.lists(REASONS, max_size=3),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 2**40),
    PROCESSES,
)
ANY_SAMPLE = st.builds(
    lambda gpus, errors: replace(sample(*gpus.values()), errors=tuple(errors)),
    st.lists(ANY_GPU, min_size=1, max_size=4).map(lambda gpus: {each.uuid: each for each in gpus}),
    st.lists(REASONS, max_size=2),
)


@given(st.lists(ANY_SAMPLE, max_size=40), st.booleans(), st.sampled_from([(), (0,), (0, 5)]))
def test_whatever_was_sampled_every_gpu_gets_one_verdict_that_the_rule_allows(samples, cut, expected):
    whole = closed(*samples, cut=cut, gpus=expected)
    folded = fold(whole)
    of = {each.uuid: [g for s in samples for g in s.gpus if g.uuid == each.uuid] for each in folded}
    assert {each.uuid for each in folded} == {g.uuid for s in samples for g in s.gpus} | set(map(gpu_uuid, expected))
    for each in folded:
        verdicts = {g.verdict for g in of[each.uuid]}
        if each.verdict is Verdict.CANDIDATE:
            assert verdicts == {Verdict.CANDIDATE}
            assert not cut
            assert each.samples >= 27
        assert (each.verdict is Verdict.HELD) == (Verdict.HELD in verdicts)
        assert each.samples == len(of[each.uuid])
    report = fit(observation(whole, REPORTER, EPOCH, 1))
    assert decode_observation(subjects.observations("gpu-01"), encode(report)) == report
