"""One request for a remedy, event by event."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bot.judge.verdict import Said
from bot.remedy.model import (
    ENDED,
    Answered,
    Approve,
    Blocked,
    Counted,
    Deny,
    NoAnswer,
    NobodyThere,
    Send,
    Stage,
    State,
    Stop,
    Tick,
)
from bot.remedy.step import step
from tests.bot.build_remedies import MINUTE, NEW_PID, REQUESTS, SEQUENCES, counting, remedy, seen
from tests.build import OTHER_BOOT, START
from wire.orders import Action
from wire.remedies import OrderState

SEND = Send("order-1", 3)
BACK = seen(OTHER_BOOT, works=True, process=NEW_PID)


def walked(request, *events, minutes=0.1):
    """The request after the events, one every so many minutes; and everything that happened."""
    happened = []
    for number, event in enumerate(events):
        request, more = step(request, event, START + number * minutes * MINUTE)
        happened += [one.what for one in more]
    return request, happened


def sent(action=Action.REBOOT_NODE, **changes):
    return walked(remedy(action, **changes), Approve("U0BOB"), SEND)[0]


def test_a_reboot_that_goes_well_is_done_only_when_work_gets_done_again():
    request, happened = walked(
        remedy(),
        Approve("U0BOB"),
        SEND,
        Answered(True),
        seen(),
        seen(OTHER_BOOT, gpus=7, process=NEW_PID),
        seen(OTHER_BOOT, process=NEW_PID),
        BACK,
    )
    assert request.state is State.DONE
    assert happened == [
        "approved",
        "sending",
        "accepted",
        "proof.rebooted",
        "proof.gpus",
        "proof.healthy",
        "proof.works",
        "done",
    ]


def test_a_restart_is_proved_by_a_new_process_and_work():
    request = sent(Action.RESTART_RUNNER)
    request, _ = walked(request, Answered(True), seen(works=True))
    assert request.state is State.ACCEPTED  # the old process proves nothing
    assert step(request, seen(works=True, process=NEW_PID), START + MINUTE)[0].state is State.DONE


def test_where_the_process_is_not_known_the_nodes_own_word_stands_for_it():
    bare = replace(remedy().facts, pid=None, started="")
    request, _ = walked(sent(Action.RESTART_RUNNER, facts=bare), Answered(True), seen(process=(None, "")))
    assert [one.done_at for one in request.proof] == [None, None]
    done = seen(process=(None, ""), word=OrderState.DONE, works=True)
    assert step(request, done, START + MINUTE)[0].state is State.DONE


def test_a_node_that_comes_back_with_fewer_gpus_is_told_in_words():
    request, _ = walked(sent(), Answered(True), seen(OTHER_BOOT, gpus=7))
    assert request.proof[1].detail == Said("remedy.missing.some_gpus", {"here": "7", "all": "8"})
    request, _ = step(request, Tick(), START + 16 * MINUTE)
    assert request.state is State.FAILED
    assert request.because == (Said("remedy.missing.some_gpus", {"here": "7", "all": "8"}),)


def test_gpus_that_cannot_be_read_after_the_boot_are_not_called_gone():
    request, _ = walked(sent(), Answered(True), seen(OTHER_BOOT, gpus=None))
    assert request.proof[1].detail == Said("remedy.missing.unread_gpus")
    request, _ = step(request, Tick(), START + 16 * MINUTE)
    assert (request.state, request.because[0].key) == (State.FAILED, "remedy.missing.unread_gpus")


def test_a_node_that_never_comes_back_has_failed_after_a_quarter_of_an_hour():
    request, _ = walked(sent(), Answered(True), Tick())
    assert step(request, Tick(), START + 15 * MINUTE)[0].state is State.ACCEPTED
    request, _ = step(request, Tick(), START + 15.2 * MINUTE)
    assert (request.state, request.because[0].key) == (State.FAILED, "remedy.missing.rebooted")


def test_loading_a_model_has_a_deadline_of_its_own():
    request, _ = walked(sent(), Answered(True), seen(OTHER_BOOT, process=NEW_PID))
    assert [one.stage for one in request.proof if not one.done_at] == [Stage.WORKS]
    assert step(request, Tick(), START + 40 * MINUTE)[0].state is State.ACCEPTED
    assert step(request, Tick(), START + 46 * MINUTE)[0].state is State.FAILED


def test_a_gpu_that_became_sick_is_no_success():
    sick = frozenset({"GPU-5"})
    request, _ = walked(sent(), Answered(True), seen(OTHER_BOOT, works=True, sick=sick, process=NEW_PID))
    assert request.state is State.ACCEPTED
    request, _ = walked(sent(sick=("GPU-5",)), Answered(True), seen(OTHER_BOOT, works=True, sick=sick, process=NEW_PID))
    assert request.state is State.DONE  # it was sick before


def test_without_a_runner_only_the_node_can_be_proved():
    request, _ = walked(sent(runner="", facts=None), Answered(True), seen(OTHER_BOOT, runner=None))
    assert request.state is State.DONE


@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        ("asked", Deny("U0BOB", "not now"), State.DENIED),
        ("asked", Stop("U0BOB"), State.STOPPED),
        ("asked", SEND, State.ASKED),
        ("asked", Answered(True), State.ASKED),
        ("approved", Blocked((Said("blocker.silent"),)), State.VOID),
        ("approved", Deny("U0BOB"), State.APPROVED),
        ("approved", Stop("U0BOB"), State.STOPPED),
        ("sending", NobodyThere(), State.VOID),
        ("sending", NoAnswer(), State.UNANSWERED),
        ("sending", Answered(False, "recovered meanwhile"), State.REFUSED),
        ("sending", Stop("U0BOB"), State.SENDING),
        ("sending", SEND, State.SENDING),
        ("accepted", SEND, State.ACCEPTED),
        ("accepted", NoAnswer(), State.ACCEPTED),
        ("accepted", Answered(False), State.ACCEPTED),
        ("accepted", seen(word=OrderState.REFUSED, why="recovered meanwhile"), State.REFUSED),
        ("accepted", seen(word=OrderState.FAILED), State.FAILED),
        ("unanswered", seen(), State.UNANSWERED),
        ("unanswered", seen(word=OrderState.ACTING), State.ACCEPTED),
        ("unanswered", seen(word=OrderState.UNKNOWN), State.ACCEPTED),
        ("unanswered", seen(OTHER_BOOT), State.ACCEPTED),
        ("unanswered", seen(minutes=3.5), State.UNANSWERED),
        ("unanswered", seen(minutes=5), State.VOID),
        ("unanswered", SEND, State.UNANSWERED),
    ],
)
def test_what_one_event_does_to_a_state(state, event, expected):
    ways = {
        "asked": (),
        "approved": (Approve("U0BOB"),),
        "sending": (Approve("U0BOB"), SEND),
        "accepted": (Approve("U0BOB"), SEND, Answered(True)),
        "unanswered": (Approve("U0BOB"), SEND, NoAnswer()),
    }
    request, _ = walked(remedy(), *ways[state])
    assert step(request, event, START + MINUTE)[0].state is expected


def test_an_order_of_which_nobody_ever_hears_ends_in_outcome_unknown():
    request, _ = walked(remedy(), Approve("U0BOB"), SEND, NoAnswer())
    request, _ = step(request, Tick(), START + 16 * MINUTE)
    assert request.state is State.OUTCOME_UNKNOWN


def test_what_the_node_itself_lost_is_not_called_failed():
    request, _ = walked(sent(Action.RESTART_RUNNER), Answered(True), seen(word=OrderState.LOST))
    request, _ = step(request, Tick(), START + 16 * MINUTE)
    assert request.state is State.OUTCOME_UNKNOWN


@pytest.mark.parametrize("events", [(), (Approve("U0BOB"),)])
def test_an_approval_ends_ten_minutes_after_the_question(events):
    request, _ = walked(remedy(), *events)
    request, happened = step(request, SEND, START + 10 * MINUTE)
    assert (request.state, request.order_id, [one.what for one in happened]) == (State.EXPIRED, "", ["expired"])


@pytest.mark.parametrize("events", [(), (Approve("U0BOB"),)])
def test_a_clock_that_is_set_back_does_not_make_an_approval_last_for_hours(events):
    request, _ = walked(remedy(), *events)
    request, happened = step(request, SEND, START - 9 * 60 * MINUTE)
    assert (request.state, request.order_id, [one.what for one in happened]) == (State.EXPIRED, "", ["expired"])


@pytest.mark.parametrize("by", [0.001, 0.5])
def test_a_clock_that_is_put_right_by_a_moment_ends_no_question(by):
    assert step(remedy(), Approve("U0BOB"), START - by * MINUTE)[0].state is State.APPROVED


def test_two_approvers_are_two_people():
    request, _ = walked(remedy(needed=2), Approve("U0BOB"), Approve("U0BOB"))
    assert request.state is State.ASKED
    assert step(request, Approve("U0CAROL"), START + MINUTE)[0].state is State.APPROVED


def test_a_countdown_begins_anew_after_any_outage_and_can_be_stopped():
    request, happened = walked(counting(), Counted(True), *[Counted(True)] * 9, minutes=1)
    assert (request.state, happened) == (State.COUNTING, ["countdown_runs"])
    request, _ = step(request, Counted(False), START + 9.5 * MINUTE)
    request, _ = step(request, Counted(True), START + 10 * MINUTE)
    assert step(request, Counted(True), START + 19 * MINUTE)[0].state is State.COUNTING
    assert step(request, Stop("U0BOB"), START + 19 * MINUTE)[0].state is State.STOPPED
    request, _ = step(request, Counted(True), START + 20 * MINUTE)
    assert request.state is State.APPROVED
    assert request.approvals == ()


@given(REQUESTS, SEQUENCES)
def test_whatever_happens_an_order_leaves_once_and_only_after_an_approval_or_a_policy(request_, events):
    now, request, orders = START, request_, []
    for seconds, event in events:
        now += timedelta(seconds=seconds)
        before = request
        request, happened = step(before, event, now)
        assert before.state not in ENDED or (request is before and not happened)
        assert (request is before) <= (not happened)
        if before.order_id:
            assert request.order_id == before.order_id
        if State.SENDING in [one.what for one in happened]:
            orders.append(request.order_id)
            people = {one.by for one in before.approvals}
            assert before.state is State.APPROVED
            assert now < before.expires_at
            assert len(people) >= before.needed or before.policy
    assert len(orders) <= 1
    assert (request.state in ENDED) == (request.ended_at is not None)


@given(SEQUENCES, st.data())
def test_the_same_events_delivered_twice_come_to_the_same(events, data):
    once = twice = remedy()
    now = START
    for seconds, event in events:
        now += timedelta(seconds=seconds)
        once, _ = step(once, event, now)
        twice, _ = step(twice, event, now)
        if data.draw(st.booleans()):
            twice, happened = step(twice, event, now)
            assert State.SENDING not in [one.what for one in happened]
    assert once.order_id == twice.order_id or twice.state in ENDED
