"""What people read of a runner: its card in every verdict, /gpu-why and /gpu-status."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bot.incident import Incident, Kind
from bot.incident.runner import finding_of, work
from bot.judge.recovery import Ending
from bot.judge.runner import Conclusion, Opened, busy_without_work, conclude
from bot.judge.stall import Ground, Judgement, StallVerdict, judge
from bot.judge.verdict import Presence
from bot.render import why
from bot.render.card import Drawing, card
from bot.render.finding_card import sentence
from bot.render.message import Message
from bot.render.runner import RunnerStatus, WhyRunner, status_line, why_runner
from bot.render.words import words
from tests.bot.any_input import TEXTS, assert_fits_and_is_harmless
from tests.build import gpu_uuid, observation
from tests.build_ticks import hung, tick
from wire.ticks import (
    ApiState,
    CanaryOutcome,
    ProcessState,
    RunnerState,
    SignalClass,
    Tick,
    Witness,
    WitnessKind,
)
from wire.ticks import (
    sentence as foreign,
)

EN = words("en")


def drawn(now: Tick, **changes: object) -> Message:
    """The card of a runner that has said so for two ticks."""
    judged = Conclusion(Presence.PRESENT, now, judge(now))
    finding = finding_of("gpu-07", judged, None)
    incident = Incident(7, Kind.RUNNER, "gpu-07/chat", now.taken_at, finding=finding, said_at=now.taken_at)
    return card(EN, Drawing(replace(incident, **changes), "t" * 22, frozenset(), now.taken_at))


QUEUE = {"signal_class": SignalClass.Q, "api": None, "canary_timeouts": 0, "gap_p99_seconds": 100.0, "gaps": 25}
VERDICTS = [
    (hung(minutes=17), "STALL gpu-07 chat: 0 results for 17 min, 12 waiting"),
    (
        hung(minutes=17, demand=None, own_demand=0.0),
        "STALL gpu-07 chat: 0 results for 17 min, test requests unanswered: 6",
    ),
    (hung(minutes=16, **QUEUE), "STALL gpu-07 chat: 0 results for 16 min, 12 waiting"),
    (hung(minutes=16, **(QUEUE | {"demand": None})), "STALL gpu-07 chat: 0 results for 16 min while work waits"),
    (
        hung(minutes=26, canary_timeouts=1),
        "STALL? gpu-07 chat: 0 results for 26 min, 12 waiting: a hang, or very long work",
    ),
    (
        hung(minutes=26, canary_timeouts=1, demand=None),
        "STALL? gpu-07 chat: 0 results for 26 min, test requests unanswered: 1",
    ),
    (hung(minutes=26, canary_timeouts=0, demand=None), "STALL? gpu-07 chat: 0 results for 26 min while work waits: a"),
    (
        tick(state=RunnerState.LOADING, loading_seconds=1300.0),
        "LOAD STUCK gpu-07 chat: nothing more was loaded for 22 min",
    ),
    (
        hung(minutes=6, canary_timeouts=0, canary_errors=3, error_seconds=300.0),
        "ERRORS gpu-07 chat: 3 test requests failed within 5 min, none worked",
    ),
    (
        tick(process=ProcessState.GONE, process_gone_seconds=120.0, process_gone_ticks=4),
        "DOWN gpu-07 chat: its process has been gone for 2 min",
    ),
    (tick(api=ApiState.REFUSED, api_dead_seconds=360.0), "DOWN gpu-07 chat: its API has not answered for 6 min"),
    (
        tick(unreadable_seconds=700.0, missing=["metrics: refused"]),
        "BLIND gpu-07 chat: nothing could be read for 12 min",
    ),
    (
        tick(config_error_seconds=700.0, canary=CanaryOutcome.CONFIG, canary_detail="status 401"),
        "BLIND gpu-07 chat: it has refused our requests for 12 min",
    ),
    (
        tick(no_completion_seconds=3700.0, progress={"tokens": 5.0}, has_moved=True),
        "RUNAWAY gpu-07 chat: it works, and has completed nothing for 1.0 h",
    ),
    (
        tick(unserved_seconds=1300.0, demand=4.0, canary_successes=5),
        "WORK STUCK gpu-07 chat: 4 waiting for 22 min, and test requests work",
    ),
    (
        tick(state=RunnerState.PAUSED, paused_seconds=1900.0),
        "WORK STUCK gpu-07 chat: paused for 32 min while work waits",
    ),
    (tick(slow_seconds=1300.0, has_moved=True), "SLOW gpu-07 chat: under a fifth of its usual rate for 22 min"),
]


@pytest.mark.parametrize(
    ("now", "title"), VERDICTS, ids=[title.split(" gpu")[0] + f"-{i}" for i, (_, title) in enumerate(VERDICTS)]
)
def test_the_first_line_of_every_verdict_holds_the_facts(now, title):
    message = drawn(now)
    assert message.text.splitlines()[0].startswith(title)
    assert_fits_and_is_harmless(message)


def test_every_verdict_that_people_hear_of_was_drawn():
    assert {judge(now).verdict for now, _ in VERDICTS} >= {
        verdict for verdict in StallVerdict if list(StallVerdict).index(verdict) > list(StallVerdict).index("suspect")
    }


def test_a_stall_shows_the_three_layers_what_is_lost_and_what_the_evidence_is_enough_for():
    text = drawn(hung(minutes=17, usual_per_hour=120.0, gpu_highest_percent=2)).text
    assert "• process ok · API ok in 4 ms · 0 results for 17 min, 12 waiting" in text
    assert "• The last thing that moved: 18 min ago" in text
    assert "• Before, while work was there: about 120 results an hour" in text
    assert "• Not done so far: about 34 results" in text
    assert "• 34 looks in a row, over 17 min, saw nothing move while somebody waited" in text
    assert "• 6 test requests for one token each were not answered in time" in text
    assert "• Its GPUs were never above 2 % in that time" in text
    assert "enough for a restart of this runner; it is not enough for a reboot" in text


def test_a_broken_part_speaks_for_a_reboot_and_is_named():
    seen = [Witness(WitnessKind.XID, 30.0, "Xid 79, GPU has fallen off the bus")]
    text = drawn(hung(minutes=12, witness_ticks=3, witnesses=seen)).text
    assert "• The driver reported an error: Xid 79, GPU has fallen off the bus" in text
    assert "for a reboot of the node: a part below it is broken" in text
    queue = drawn(hung(minutes=16, **QUEUE, witness_ticks=3, witnesses=seen)).text
    assert "for a reboot of the node" in queue


def test_where_a_hang_and_long_work_look_alike_nobody_is_told_to_reboot():
    text = drawn(hung(minutes=30, signal_class=SignalClass.C)).text
    assert "a hang and very long work look alike" in text
    assert "it is not enough for a reboot" in text


def test_no_button_is_drawn_that_does_nothing():
    labels = [_label(element) for element in _elements(drawn(hung()))]
    assert labels == ["Acknowledge", "Snooze…", ["Evidence", "Not a stall…"]]
    disputed = drawn(hung(), disputed_by="U0BOB", disputed_at=hung().taken_at, acknowledged_by="U0BOB")
    assert [_label(element) for element in _elements(disputed)] == ["Snooze…", "Evidence"]


def _elements(message: Message):
    return next((block["elements"] for block in message.blocks if block["type"] == "actions"), [])


def _label(element):
    if element["type"] == "overflow":
        return [option["text"]["text"] for option in element["options"]]
    return element["text"]["text"]


def test_a_recovery_says_what_ended_it_how_long_it_lasted_and_what_was_lost():
    stalled = hung(minutes=17, usual_per_hour=60.0)
    said = finding_of("gpu-07", Conclusion(Presence.PRESENT, stalled, judge(stalled)), None)
    now = tick(at_minutes=13, has_moved=True, usual_per_hour=60.0)
    over = finding_of("gpu-07", conclude(stalled, now, Opened(StallVerdict.STALLED, said.since)), said)
    lines = [sentence(EN, line) for line in over.lines]
    assert lines == ["work moves again", "Not done in all: about 30 results"]
    message = drawn(stalled, closed_at=now.taken_at, ending=over.lines)
    assert message.text.splitlines()[0] == "RECOVERED gpu-07 chat. It was: a runner is stalled"
    assert "It lasted 30 min" in message.text
    assert _elements(message) == []


def test_every_word_has_its_sentence():
    families = {
        "process": [*ProcessState],
        "api": [*ApiState],
        "canary": [*CanaryOutcome],
        "witness": [*WitnessKind],
        "ending": [*Ending, "not_watched"],
        "runs": [*StallVerdict],
        "class": [one.value.lower() for one in SignalClass],
    }
    assert [
        f"{name}.{one}" for name, all_ in families.items() for one in all_ if f"{name}.{one}" not in EN.sentences
    ] == []
    evidence = [Ground.CANARY_TIMEOUTS, Ground.CANARY_ERRORS, Ground.CANARY_OK, Ground.FEW_TIMEOUTS, Ground.GPU_QUIET]
    evidence += [Ground.GPU_BUSY_OR_UNKNOWN, Ground.OWN_GAPS, Ground.FEW_GAPS]
    assert [one for one in evidence if f"evidence.{one}" not in EN.sentences] == []


# --- for those who ask ----------------------------------------------------------------------------------------------


def test_why_says_the_verdict_what_it_rests_on_and_the_latest_looks():
    now, before = hung(minutes=5, missing=["/metrics: status 500"]), hung(at_minutes=-0.5, minutes=4.5)
    status = RunnerStatus(now, judge(now), 3.0)
    text = why_runner(EN, WhyRunner("gpu-07", "chat", None, status, [(now, judge(now)), (before, judge(before))])).text
    assert "*gpu-07 chat* · vllm · what can be seen of it: its finer progress" in text
    assert "*Now: suspect: somebody waits and nothing moves*" in text
    assert "process ok · API ok in 4 ms · 0 results for 5 min, 12 waiting" in text
    assert "Not read: `/metrics: status 500`" in text
    assert (
        "suspect: somebody waits and nothing moves · 0 results for 4 min, 12 waiting · completed - · GPU 100 %" in text
    )


def test_why_does_not_guess_about_a_time_without_a_look():
    at = tick().taken_at
    assert "No look at it is recorded" in why_runner(EN, WhyRunner("gpu-07", "chat", at, None)).text
    assert "No look at it has arrived" in why_runner(EN, WhyRunner("gpu-07", "chat", None, None)).text


def test_a_verdict_that_one_look_alone_supports_is_said_to_be_on_its_way():
    first = hung()
    concluded = conclude(None, first, None)
    text = why_runner(
        EN, WhyRunner("gpu-07", "chat", None, RunnerStatus(first, concluded.judgement, 1.0, concluded.pending))
    ).text
    assert "Nobody is told yet: the next look must agree" in text


def test_a_status_holds_one_line_for_each_runner():
    line = status_line(EN, RunnerStatus(hung(minutes=5), judge(hung(minutes=5)), 1.0))
    assert line.startswith("Runner chat: *suspect: somebody waits and nothing moves* · process ok · API ok in 4 ms")


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (tick(demand=0.0), "nobody waits"),
        (tick(own_demand=0.0), "nobody waits"),
        (tick(), "who waits is not known"),
        (tick(waiting_seconds=60.0), "who waits is not known"),
        (tick(waiting_seconds=60.0, demand=3.0), "3 waiting"),
        (tick(has_moved=True), "work moves"),
        (tick(has_moved=True, demand=2.0), "work moves, 2 waiting"),
        (tick(no_progress_seconds=600.0), "0 results for 10 min"),
        (tick(no_progress_seconds=600.0, own_demand=0.0), "0 results for 10 min, nobody waits by its own word"),
        (tick(no_progress_seconds=600.0, demand=2.0), "0 results for 10 min, 2 waiting"),
    ],
)
def test_that_nobody_waits_is_said_only_where_that_was_read(look, says):
    assert sentence(EN, work(look)) == says


def test_a_gpu_that_is_busy_for_a_runner_that_does_nothing_is_labelled_so():
    window = observation(ticks=[hung(minutes=17)])
    found = why.Why("gpu-07", gpu_uuid(0), 0, "H100", window.closed_at, window, window.gpus[0], None, 0, 3)
    label = "*Busy without work*: the runner chat has had 0 results for 17 min while its GPUs showed 100 %"
    assert label in why.why(EN, found).text
    for harmless in (hung(minutes=5), hung(minutes=17, gpu_utilization_percent=0), tick(gpu_utilization_percent=100)):
        assert busy_without_work([harmless]) is None


@given(TEXTS, TEXTS, st.sampled_from([now for now, _ in VERDICTS]))
def test_whatever_a_node_says_stays_within_the_limits_and_mentions_nobody(detail, missing, now):
    words_of_node = {"api_detail": foreign(detail), "canary_detail": foreign(detail), "missing": [foreign(missing)] * 8}
    hostile = replace(
        now,
        preset=foreign(detail)[:64],
        witnesses=[Witness(WitnessKind.XID, 1.0, foreign(detail))] * 8,
        **words_of_node,
    )
    assert_fits_and_is_harmless(drawn(hostile))
    status = RunnerStatus(hostile, judge(hostile), 3.0)
    looks = [(hostile, Judgement(StallVerdict.SUSPECT))] * 30
    assert_fits_and_is_harmless(why_runner(EN, WhyRunner("gpu-07", "chat", None, status, looks)))
