"""The life of a candidate card."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from bot.incident import (
    PENDING_GRACE,
    Acknowledged,
    CardState,
    GpuChange,
    GpuFacts,
    Judged,
    SaidInUse,
    ShowCard,
    ThreadLine,
    step,
)
from bot.judge.verdict import Because, Presence, Standing
from tests.build import START, gpu_uuid
from wire.reasons import Reason, ReasonCode

FREE = Standing(Presence.PRESENT, Because.CONFIRMED, 3)
HELD = Standing(Presence.ABSENT, Because.SAMPLE_HELD, 0, reasons=(Reason(ReasonCode.COMPUTE_PROCESS, "9"),))
UNKNOWN = Standing(Presence.UNKNOWN, Because.WINDOW_NOT_JUDGED, 0)
PENDING = Standing(Presence.UNKNOWN, Because.WINDOW_PENDING, 3)
NO_HEARTBEAT = Standing(Presence.UNKNOWN, Because.NO_HEARTBEAT, 3)


def judged(*standings: Standing, newest: int = 3) -> Judged:
    gpus = {
        gpu_uuid(i): GpuFacts(gpu_uuid(i), i, "H100", standing, START, 300.0, newest, (), None)
        for i, standing in enumerate(standings)
    }
    return Judged("gpu-01", gpus, windows=3)


def told(effects):
    return [effect.key if isinstance(effect, ThreadLine) else "card" for effect in effects]


def changes(effects):
    """What the step's one line says of GPUs."""
    (line,) = [effect for effect in effects if isinstance(effect, ThreadLine)]
    return msgspec.json.decode(line.values["changes"], type=list[GpuChange])


@pytest.fixture
def opened():
    return step(None, judged(FREE), START)[0]


@pytest.mark.parametrize("standing", [UNKNOWN, HELD, PENDING])
def test_nothing_opens_before_a_gpu_is_free_now(standing):
    assert step(None, judged(standing), START) == (None, ())


def test_one_card_holds_all_free_gpus_of_a_node():
    incident, effects = step(None, judged(HELD, FREE, FREE), START)
    assert [gpu.index for gpu in incident.gpus] == [1, 2]
    assert effects == (ShowCard(),)


def test_a_gpu_that_becomes_free_later_joins_the_card(opened):
    incident, effects = step(opened, judged(FREE, FREE), START)
    assert [gpu.state for gpu in incident.gpus] == [CardState.CONFIRMED] * 2
    assert (incident.revision, told(effects)) == (2, ["card", "thread.confirmed"])


def test_a_held_gpu_leaves_and_the_last_one_closes_the_card(opened):
    both, _ = step(opened, judged(FREE, FREE), START)
    one_left, effects = step(both, judged(HELD, FREE), START)
    assert (one_left.closed_at, told(effects)) == (None, ["card", "thread.left"])
    assert one_left.gpus[0].detail == "compute_process"
    closed, _ = step(one_left, judged(HELD, HELD), START)
    assert closed.closed_at == START


def test_a_gpu_that_is_free_again_after_it_left_rejoins_the_open_card(opened):
    both, _ = step(opened, judged(FREE, FREE), START)
    left, _ = step(both, judged(HELD, FREE), START)
    again, effects = step(left, judged(FREE, FREE, newest=9), START)
    assert again.gpus[0].state is CardState.CONFIRMED
    assert told(effects) == ["card", "thread.confirmed"]


def test_gpus_that_change_in_the_same_way_at_once_are_one_line(opened):
    eight, effects = step(opened, judged(*[FREE] * 8), START)
    assert changes(effects) == [GpuChange(CardState.CONFIRMED, (1, 2, 3, 4, 5, 6, 7))]
    _, effects = step(eight, judged(*[HELD] * 2, FREE, FREE, *[HELD] * 4), START)
    left = GpuChange(CardState.LEFT, (0, 1, 4, 5, 6, 7), Because.SAMPLE_HELD, "compute_process")
    assert (told(effects), changes(effects)) == (["card", "thread.left"], [left])


def test_gpus_that_change_differently_at_once_are_one_line_too_in_the_order_of_the_gpus(opened):
    five, _ = step(opened, judged(*[FREE] * 5), START)
    given = Standing(Presence.ABSENT, Because.ALLOCATED, 0, "pod default/chat-0")
    _, effects = step(five, judged(given, HELD, UNKNOWN, HELD, FREE, FREE), START)
    assert told(effects) == ["card", "thread.left"]
    assert changes(effects) == [
        GpuChange(CardState.LEFT, (0,), Because.ALLOCATED, "pod default/chat-0"),
        GpuChange(CardState.LEFT, (1, 3), Because.SAMPLE_HELD, "compute_process"),
        GpuChange(CardState.NOT_JUDGED, (2,), Because.WINDOW_NOT_JUDGED),
        GpuChange(CardState.CONFIRMED, (5,)),
    ]


def test_unknown_neither_closes_nor_ends_before_three_new_windows(opened):
    blind, effects = step(opened, judged(UNKNOWN, newest=4), START)
    assert (blind.closed_at, blind.gpus[0].state) == (None, CardState.NOT_JUDGED)
    assert told(effects) == ["card", "thread.not_judged"]
    assert step(blind, judged(FREE, newest=5), START) == (blind, ())
    seen_again, _ = step(blind, judged(FREE, newest=6), START)
    assert seen_again.gpus[0].state is CardState.CONFIRMED


def test_a_gpu_that_is_not_reported_any_more_is_not_judged(opened):
    incident, _ = step(opened, judged(), START)
    assert (incident.gpus[0].state, incident.gpus[0].because) == (CardState.NOT_JUDGED, Because.GPU_NOT_REPORTED)


@pytest.mark.parametrize("standing", [PENDING, NO_HEARTBEAT])
def test_a_window_or_a_heartbeat_that_is_only_on_its_way_does_not_touch_the_card(opened, standing):
    waiting, effects = step(opened, judged(standing), START)
    assert (waiting.revision, effects) == (opened.revision, ())
    later = START + PENDING_GRACE
    assert step(waiting, judged(standing), later - timedelta(seconds=1))[0].gpus[0].state is CardState.CONFIRMED
    assert step(waiting, judged(standing), later)[0].gpus[0].state is CardState.NOT_JUDGED
    arrived, _ = step(waiting, judged(FREE, newest=4), later)
    assert arrived.gpus[0].pending_since is None


def test_a_clock_that_is_set_back_does_not_make_a_word_that_cannot_be_told_last_for_hours(opened):
    """Free, and then nothing is heard of it: a minute of patience, not the hours by which the clock was ahead."""
    waiting, _ = step(opened, judged(NO_HEARTBEAT), START)
    after, _ = step(waiting, judged(NO_HEARTBEAT), START - timedelta(hours=9))
    assert after.gpus[0].state is CardState.NOT_JUDGED


def test_acknowledging_twice_counts_once(opened):
    first, effects = step(opened, Acknowledged("U1"), START)
    assert (first.acknowledged_by, first.decision_revision, told(effects)) == ("U1", 2, ["card", "thread.acknowledged"])
    assert effects[0].at_once
    assert step(first, Acknowledged("U2"), START) == (first, ())


def test_a_gpu_that_a_person_says_is_in_use_is_not_called_free_until_it_was_used(opened):
    disputed, _ = step(opened, SaidInUse("U1"), START)
    assert disputed.gpus[0].state is CardState.DISPUTED
    assert step(disputed, judged(FREE, newest=99), START) == (disputed, ())
    assert step(disputed, judged(UNKNOWN), START) == (disputed, ())
    assert step(disputed, judged(HELD), START)[0].closed_at == START


@pytest.mark.parametrize("because", [Because.CLAIMED, Because.ALLOCATED])
def test_a_claim_or_an_allocation_that_ends_without_use_does_not_end_that(opened, because):
    disputed, _ = step(opened, SaidInUse("U1"), START)
    taken, effects = step(disputed, judged(Standing(Presence.ABSENT, because, 3, "U2")), START)
    assert (taken, effects) == (disputed, ())
    assert step(taken, judged(FREE, newest=99), START) == (disputed, ())


@pytest.mark.parametrize("because", [Because.NEW_BOOT, Because.NODE_REMOVED, Because.WINDOW_HELD])
def test_a_new_boot_a_removed_node_and_use_end_it(opened, because):
    disputed, _ = step(opened, SaidInUse("U1"), START)
    assert step(disputed, judged(Standing(Presence.ABSENT, because, 0)), START)[0].closed_at == START


def test_nothing_moves_a_closed_incident(opened):
    closed = replace(opened, closed_at=START)
    for event in (Acknowledged("U1"), SaidInUse("U1")):
        assert step(closed, event, START) == (closed, ())


def test_a_longer_streak_is_kept_without_drawing_the_card_again(opened):
    longer = replace(FREE, streak=9)
    incident, effects = step(opened, judged(longer, newest=9), START)
    assert (incident.gpus[0].streak, incident.revision, effects) == (9, opened.revision, ())
