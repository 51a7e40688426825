"""The cases of classes A to C once more, but now the agent decides when a canary is sent, and the case answers it."""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from itertools import pairwise

import pytest
from msgspec.structs import replace

from agent.progress import Why, canary_due, fold
from agent.runner_reading import CanaryResult
from bot.judge.stall import StallVerdict, judge
from tests.build import BOOT, START
from tests.stall_cases import Case, all_cases, continued, first, reading, resampled
from wire.ticks import CanaryOutcome, RunnerState, SignalClass

CASES = [case for case in all_cases() if case.signal_class is not SignalClass.Q]
TIMEOUT_SECONDS = 75.0
WITHIN_MIN = {StallVerdict.STALLED: 35.0, StallVerdict.UNCERTAIN: 40.0}
UNTIL_MIN = 60.0


@dataclass
class Played:
    said: list[tuple[float, StallVerdict]] = field(default_factory=list)
    canaries: list[tuple[float, Why]] = field(default_factory=list)
    moving_when_sent: list[float] = field(default_factory=list)
    resting_when_sent: list[float] = field(default_factory=list)


def answer(case: Case, minute: float) -> CanaryOutcome:
    """What the runner of the case makes of a canary that is sent now: what it made of the next one in the story."""
    told = [(w["t_min"], w["canary"]) for w in case.windows if w["canary"] != "skipped"]
    later = [outcome for at_min, outcome in told if at_min > minute]
    if later:
        return CanaryOutcome(later[0])
    return CanaryOutcome(told[-1][1]) if told and case.is_stall else CanaryOutcome.OK


def play(case: Case) -> Played:
    return _played(case.id)


@cache
def _played(case_id: str) -> Played:
    case = next(case for case in CASES if case.id == case_id)
    story = resampled(continued(case, UNTIL_MIN)) if case.is_stall else resampled(case)
    memory, plan, played = case.memory(), replace(case.plan(when_idle=True), tick_seconds=story.tick_seconds), Played()
    sent_min, ends_min, outcome, good, before = None, 0.0, CanaryOutcome.OK, 0, None
    for window in story.windows:
        minute = window["t_min"]
        if case.canary_adds:  # the written counts are those of the written canaries
            window = {**window, "completed": 501 + good, "tokens": 9001 + good}
        ended = None
        if sent_min is not None and minute >= ends_min:
            good += outcome is CanaryOutcome.OK
            ended, sent_min = CanaryResult(outcome, (minute - sent_min) * 60), None
            if case.canary_adds:
                window = {**window, "completed": 501 + good, "tokens": 9001 + good}
        outstanding = None if sent_min is None else (minute - sent_min) * 60
        seen = reading(story, window, with_canary=False)
        seen = replace(seen, canary=ended, canary_outstanding_seconds=outstanding)
        memory, tick = fold(
            memory, seen, plan, boot_id=BOOT, at_seconds=1e5 + minute * 60, taken_at=START + timedelta(minutes=minute)
        )
        played.said.append((minute, judge(tick).verdict))
        why = canary_due(memory, seen, plan)
        if why is not None:
            assert sent_min is None, "two canaries at once"
            sent_min, outcome = minute, answer(case, minute)
            ends_min = minute + (TIMEOUT_SECONDS if outcome is CanaryOutcome.TIMEOUT else 1.0) / 60
            played.canaries.append((minute, why))
            if before is not None and finer(before) != finer(window):
                played.moving_when_sent.append(minute)
            if seen.state is not RunnerState.READY:
                played.resting_when_sent.append(minute)
        before = window
    return played


def finer(window) -> tuple:
    return window.get("tokens"), window.get("aux")


def last_progress_min(case: Case) -> float:
    names = ("completed", "tokens", "aux")
    moved = [
        window["t_min"]
        for before, window in zip(case.windows, case.windows[1:], strict=False)
        if any(None not in (before.get(n), window.get(n)) and before[n] != window[n] for n in names)
    ]
    return moved[-1] if moved else case.windows[0]["t_min"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_agents_own_canaries_find_the_stall_in_time_and_raise_nothing_else(case):
    played = play(case)
    print(case.title, played.canaries, *played.said, sep="\n")
    assert not {verdict for _, verdict in played.said} & case.never
    if case.expected in WITHIN_MIN:
        reached = first(played.said, case.expected)
        assert reached is not None
        assert reached <= last_progress_min(case) + WITHIN_MIN[case.expected]
    elif case.is_stall:
        assert first(played.said, case.expected) is not None
    assert played.moving_when_sent == []
    assert played.resting_when_sent == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_canaries_are_two_minutes_apart(case):
    minutes = [minute for minute, _ in play(case).canaries]
    assert all(later - earlier >= 1.99 for earlier, later in pairwise(minutes))


def test_while_nobody_is_known_to_wait_a_canary_goes_out_5_minutes_after_the_last_good_one():
    night = next(case for case in CASES if case.id == "L30")
    played = play(night)
    assert [why for _, why in played.canaries] == [Why.IDLE] * len(played.canaries)
    assert [minute for minute, _ in played.canaries] == pytest.approx([7.0, 12.5], abs=1.0)
