"""The sixty cases to the last step: what people would read, live by heartbeats and from the record, is the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from agent.progress import fold
from bot.config import Stall
from bot.incident import Finding, Incident, step
from bot.judge.candidate import CandidateRule
from bot.judge.stall import DEFAULTS
from bot.render.finding_card import title_of
from bot.render.words import words
from bot.replay.past import Past
from bot.runners import Runners
from tests.build import BOOT, START, heartbeat, observation
from tests.stall_cases import Case, all_cases, continued, reading, resampled, ticks
from wire.ticks import Tick

NODE = "gpu-01"
CASES = [*all_cases(), *(resampled(case) for case in all_cases())]
EN = words("en")


@dataclass
class Heard:
    """What was said of one runner: minute, verdict and title at every change; None for the end."""

    incident: Incident | None = None
    said: list[tuple[float, str, str]] = field(default_factory=list)
    ended: int = 0

    def step(self, minute: float, finding: Finding, tick: Tick) -> Incident:
        before = self.incident
        after, _ = step(before, finding, tick.taken_at)
        assert after is not None
        if before is None or before.what != after.what or after.closed_at:
            self.said.append((minute, after.what, title_of(EN, after, after.finding)))
        self.ended += after.closed_at is not None
        self.incident = None if after.closed_at else after
        return after


_TICKS: dict[str, list[tuple[float, Tick]]] = {}


def played(case: Case) -> list[tuple[float, Tick]]:
    """Folded once."""
    return _TICKS.setdefault(_name(case), list(ticks(case)))


def live(case: Case) -> Heard:
    """Each tick in a heartbeat, through what the bot keeps of runners."""
    runners, heard = Runners(), Heard()
    for minute, tick in played(case):
        runners.heard(heartbeat(None, [], node=NODE, runners=[tick]), minute * 60)
        for finding in runners.findings(NODE, minute * 60, 0.0):
            runners.note(heard.step(minute, finding, tick))
    return heard


def recorded(case: Case) -> Iterator[tuple[str, str]]:
    """All ticks in reports of ten each, as the record has them."""
    past, all_ticks = Past(CandidateRule(), DEFAULTS), [tick for _, tick in played(case)]
    for number in range(0, len(all_ticks), 10):
        for change in past.take(observation(1000 + number, [], node=NODE, ticks=all_ticks[number : number + 10])):
            yield change.incident.what, title_of(EN, change.incident, change.incident.finding)


def _name(case: Case) -> str:
    return f"{case.id}-{case.tick_seconds:g}s"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_people_hear_of_a_case_by_its_time_and_never_of_what_it_is_not(case):
    heard = live(case)
    print(case.title, *heard.said, sep="\n")
    first = {what: minute for minute, what, _ in reversed(heard.said)}
    assert not {str(verdict) for verdict in case.never} & first.keys()
    if case.raise_by_min is not None:
        assert first[str(case.expected)] <= case.raise_by_min
        assert heard.incident is not None
        assert heard.incident.what == case.expected
    assert heard.ended == 0  # no case recovers: nothing may be called over


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_the_record_says_the_same_words_as_the_bot_did(case):
    assert list(recorded(case)) == [(what, title) for _, what, title in live(case).said]


def test_of_the_look_alikes_three_are_said_and_none_of_them_as_a_stall():
    said = {case.id: {what for _, what, _ in live(case).said} for case in CASES if not case.is_stall}
    assert {name: what for name, what in said.items() if what} == {
        "L25": {"runaway"},
        "L31": {"work_stuck"},
        "L33": {"blind"},
    }
    assert {"runaway", "work_stuck"} & set(Stall().post) == set()  # these two are only recorded


def with_a_break(case: Case, how: str) -> Iterator[tuple[float, Tick]]:
    """The stall goes on for half an hour; in its middle the host sleeps, or the agent loses its memory."""
    longer = continued(case, case.windows[-1]["t_min"] + 30)
    memory, plan, shift = longer.memory(), longer.plan(), 0.0
    middle = len(case.windows)
    for number, window in enumerate(longer.windows):
        if number == middle:
            shift, memory = (300.0 + 3 * longer.tick_seconds, memory) if how == "asleep" else (0.0, longer.memory())
        at_seconds = 1e5 + window["t_min"] * 60 + shift
        memory, tick = fold(
            memory,
            reading(longer, window),
            plan,
            boot_id=BOOT,
            at_seconds=at_seconds,
            taken_at=START + timedelta(seconds=at_seconds),
        )
        yield at_seconds / 60, tick


STALLS = [case for case in CASES if case.is_stall and case.raise_by_min is not None]


@pytest.mark.parametrize("how", ["asleep", "forgotten"])
@pytest.mark.parametrize("case", STALLS, ids=_name)
def test_clocks_that_begin_anew_are_no_recovery(case, how):
    runners, heard = Runners(), Heard()
    for minute, tick in with_a_break(case, how):
        runners.heard(heartbeat(None, [], node=NODE, runners=[tick]), minute * 60)
        for finding in runners.findings(NODE, minute * 60, 0.0):
            runners.note(heard.step(minute, finding, tick))
    print(case.title, *heard.said, sep="\n")
    assert heard.said
    assert heard.ended == 0
