"""What can be seen of a node: each rule by a table of heartbeats, windows and silence."""

from datetime import timedelta

import pytest

from bot.judge.presence import (
    RULES,
    PresenceRule,
    View,
    clock_wrong,
    gpu_gone,
    gpu_sick,
    is_too_early,
    last_known,
    lost,
    processes_hidden,
    reading_broken,
    two_agents,
)
from bot.judge.pulse import heard
from bot.judge.track import observed
from bot.judge.verdict import Presence
from tests.build import BOOT, EPOCH, FIRST_WINDOW, OTHER_BOOT, START, gpu_uuid, heartbeat, observation
from wire.messages import GpuNow, Verdict
from wire.reasons import Reason, ReasonCode

PRESENT, ABSENT, UNKNOWN = Presence.PRESENT, Presence.ABSENT, Presence.UNKNOWN
H, U = Verdict.HELD, Verdict.UNKNOWN
RULE = PresenceRule()
FAILED = [Reason(ReasonCode.SAMPLE_ERROR, "nvidia-smi exits with 9")]
MISSING = [Reason(ReasonCode.GPU_MISSING, gpu_uuid(1))]
SICK = Reason(ReasonCode.RECOVERY_ACTION, "reset")
VIEW = Reason(ReasonCode.PROCESS_VIEW, "not the init PID namespace")
UNREADABLE = Reason(ReasonCode.PROCESSES_UNREADABLE, "no permission")


def pulse(*beats, every_seconds=30.0, begins_at=1000.0):
    """Heartbeats `every_seconds` apart, each with the clock of the bot unless it says otherwise."""
    folded = None
    for i, beat in enumerate(beats):
        seconds = every_seconds * i
        folded = heard(folded, beat, begins_at + seconds, START + timedelta(seconds=seconds))
    return folded


def beat(reasons=(), errors=(), behind_seconds=0.0, at=0, **changes):
    """The heartbeat number `at`, sent on the second by a clock that may be wrong."""
    verdict = U if reasons else Verdict.CANDIDATE
    gpus = [GpuNow(0, gpu_uuid(0), verdict, list(reasons), 3.0, [])] if not errors else []
    sent_at = START + timedelta(seconds=30 * at - behind_seconds)
    return heartbeat(FIRST_WINDOW, gpus=gpus, errors=list(errors), sent_at=sent_at, **changes)


def view(pulse_=None, now_seconds=None, listening_seconds=0.0, track=None):
    seconds = now_seconds if now_seconds is not None else pulse_.heard_seconds + 5.0 if pulse_ else 1000.0
    return View("gpu-01", START, seconds, listening_seconds, pulse_, track)


# --- lost -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silent_seconds", "listening_since", "expected"),
    [
        (0, 0.0, ABSENT),
        (60, 0.0, ABSENT),
        (61, 0.0, UNKNOWN),
        (179, 0.0, UNKNOWN),
        (180, 0.0, PRESENT),
        (999, None, UNKNOWN),  # the bot hears nobody
        (999, 1900.0, UNKNOWN),  # the bot was away until 99 s ago
        (999, 1819.0, PRESENT),
    ],
)
def test_a_node_is_lost_after_three_minutes_in_which_the_bot_listened(silent_seconds, listening_since, expected):
    seen = lost(view(pulse(beat()), 1000.0 + silent_seconds, listening_since), RULE)
    assert seen.presence is expected
    if expected is PRESENT:
        assert (seen.since, seen.lines[0].key) == (START, "evidence.silent")


@pytest.mark.parametrize(("seconds", "expected"), [(100, UNKNOWN), (269, UNKNOWN), (270, PRESENT)])
def test_a_node_that_never_spoke_to_this_bot_has_ninety_seconds_more(seconds, expected):
    seen = lost(view(None, 1000.0 + seconds, 1000.0), RULE)
    assert seen.presence is expected
    if expected is PRESENT:
        assert seen.lines[0].key == "evidence.never_heard"


@pytest.mark.parametrize(
    ("seen", "now_seconds", "expected"),
    [
        (None, 300.0, True),  # the node may still speak, or be lost
        (None, 301.0, False),
        (pulse(beat(), begins_at=10.0), 100.0, True),
        (pulse(beat(), begins_at=10.0), 101.0, False),
        (pulse(beat(), begins_at=-900.0), 10.0, False),  # the bus was away, not the bot
    ],
)
def test_a_bot_that_has_just_begun_does_not_call_unseen_what_the_one_before_it_saw(seen, now_seconds, expected):
    assert is_too_early(View("gpu-01", START, now_seconds, 1.0, seen, None, began_seconds=0.0), RULE) is expected


def test_what_a_lost_node_was_doing_is_remembered():
    track = observed(None, observation(FIRST_WINDOW, [H, Verdict.CANDIDATE, H]))
    (line,) = last_known(view(pulse(beat()), track=track))
    assert line.texts == {"held": "2", "candidate": "1", "unknown": "0"}


# --- reading broken -------------------------------------------------------------------------------------------------


def tracked(*reports):
    """One track of windows: `B` broken, `E` with an error and yet held, `.` fine."""
    track = None
    for number, kind in reports:
        verdict = {"B": U, "E": H, ".": Verdict.CANDIDATE}[kind]
        errors = [] if kind == "." else FAILED
        track = observed(track, observation(FIRST_WINDOW + number, [verdict], errors=errors))
    return track


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (".", ABSENT),
        ("B", UNKNOWN),
        (".B", UNKNOWN),
        (".BB", PRESENT),
        ("BBB", PRESENT),
        ("BB.", ABSENT),
        ("BB.B", UNKNOWN),
        (".EE", ABSENT),
        ("B.B", UNKNOWN),
    ],
)
def test_reading_is_broken_after_two_windows_of_which_nothing_could_be_told(windows, expected):
    seen = reading_broken(view(pulse(beat()), track=tracked(*enumerate(windows))), RULE)
    assert seen.presence is expected
    if expected is PRESENT:
        assert seen.lines[0].texts == {"detail": "nvidia-smi exits with 9"}


def test_the_order_in_which_broken_windows_arrive_does_not_matter():
    late = tracked((0, "."), (2, "B"), (1, "B"))
    assert reading_broken(view(pulse(beat()), track=late), RULE).presence is PRESENT


def test_windows_without_any_gpu_can_be_broken_and_a_gap_is_not():
    track = None
    for number in (0, 1):
        track = observed(track, observation(FIRST_WINDOW + number, [], errors=FAILED))
    assert reading_broken(view(pulse(beat()), track=track), RULE).presence is PRESENT
    gap = tracked((0, "B"), (2, "B"))
    assert reading_broken(view(pulse(beat()), track=gap), RULE).presence is UNKNOWN


def test_gpus_that_a_person_released_are_no_broken_reading():
    released = [Reason(ReasonCode.RELEASED, "alice until 2026-11-30 13:00 UTC (gpu reset)")]
    track = None
    for number in range(4):
        track = observed(track, observation(FIRST_WINDOW + number, [U], errors=released))
    assert reading_broken(view(pulse(beat()), track=track), RULE).presence is ABSENT


def test_a_missing_gpu_is_gone_and_not_a_broken_reading():
    track = None
    for number in (0, 1):
        track = observed(track, observation(FIRST_WINDOW + number, [U], errors=MISSING))
    assert reading_broken(view(pulse(beat()), track=track), RULE).presence is ABSENT


def test_a_new_boot_begins_anew():
    track = observed(tracked((0, "B"), (1, "B")), observation(FIRST_WINDOW + 2, [U], errors=FAILED, boot_id=OTHER_BOOT))
    assert reading_broken(view(pulse(beat()), track=track), RULE).presence is UNKNOWN


# --- what two samples show ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "shows", "key"),
    [
        (processes_hidden, {"reasons": [VIEW]}, "reason.process_view"),
        (processes_hidden, {"reasons": [UNREADABLE]}, "reason.processes_unreadable"),
        (gpu_sick, {"reasons": [SICK]}, "evidence.gpu_sick"),
        (gpu_gone, {"errors": MISSING}, "reason.gpu_missing"),
    ],
)
def test_two_samples_in_a_row_confirm_and_one_clears(rule, shows, key):
    fine, bad = beat(), beat(**shows)
    assert rule(view(pulse(fine)), RULE).presence is ABSENT
    assert rule(view(pulse(fine, bad)), RULE).presence is UNKNOWN
    found = rule(view(pulse(fine, bad, bad)), RULE)
    assert (found.presence, found.lines[0].key) == (PRESENT, key)
    assert rule(view(pulse(fine, bad, bad, fine)), RULE).presence is ABSENT
    assert rule(view(pulse(bad, fine, bad)), RULE).presence is UNKNOWN


def test_one_sample_that_is_sent_twice_counts_once():
    first = heard(None, beat([SICK]), 1000.0, START)
    old = GpuNow(0, gpu_uuid(0), U, [SICK], 8.0, [])
    again = heard(first, heartbeat(FIRST_WINDOW, gpus=[old]), 1005.0, START)
    assert again.sick == {gpu_uuid(0): 1}
    assert heard(again, beat([SICK]), 1010.0, START).sick == {gpu_uuid(0): 2}


def test_a_sample_that_failed_says_nothing_about_sickness():
    kept = pulse(beat([SICK]), beat([SICK]), beat(errors=FAILED))
    assert gpu_sick(view(kept), RULE).presence is UNKNOWN
    assert gpu_sick(view(pulse(beat([SICK]), beat(errors=FAILED), beat([SICK]))), RULE).presence is PRESENT


# --- clocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behind", "expected", "key"),
    [
        ((0, 0, 0), ABSENT, None),
        ((61, 61, 61), PRESENT, "evidence.clock_behind"),
        ((-61, -61, -61), PRESENT, "evidence.clock_ahead"),
        ((60, 60, 60), ABSENT, None),
        ((300, 300), UNKNOWN, None),
        ((300, 2, 300), ABSENT, None),  # it was on its way for long
        ((300, 300, 300, 1), ABSENT, None),
        ((0, 300, 300, 300), PRESENT, "evidence.clock_behind"),
        ((100, -100, 100), ABSENT, None),
    ],
)
def test_a_clock_is_wrong_when_three_heartbeats_say_so(behind, expected, key):
    found = clock_wrong(view(pulse(*(beat(behind_seconds=one, at=i) for i, one in enumerate(behind)))), RULE)
    assert found.presence is expected
    if key:
        assert found.lines[0].key == key


# --- two agents under one name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lives", "expected"),
    [
        ("A", UNKNOWN),
        ("AB", UNKNOWN),
        ("ABC", UNKNOWN),
        ("ABA", PRESENT),
        ("ABAB", PRESENT),
        ("AB" + "B" * 30, ABSENT),
        ("ABA" + "A" * 30, ABSENT),
    ],
)
def test_a_life_that_comes_back_after_another_one_is_a_second_agent(lives, expected):
    boots = {"A": BOOT, "B": OTHER_BOOT, "C": BOOT[:-1] + "3"}
    folded = pulse(*(beat(boot_id=boots[life]) for life in lives))
    assert two_agents(view(folded), RULE).presence is expected


def test_two_spools_that_take_turns_are_two_agents_too():
    other = EPOCH[::-1]
    folded = pulse(*(beat(spool_epoch=epoch) for epoch in (EPOCH, other, EPOCH)))
    assert two_agents(view(folded), RULE).presence is PRESENT


# --- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in RULES if name != "node_lost"])
@pytest.mark.parametrize("pulse_", [None, pulse(beat(errors=FAILED), beat([SICK]), beat(errors=MISSING))])
def test_nothing_is_said_of_a_node_that_is_not_heard(name, pulse_):
    track = tracked((0, "B"), (1, "B"))
    assert RULES[name](view(pulse_, 9999.0, track=track), RULE).presence is UNKNOWN
