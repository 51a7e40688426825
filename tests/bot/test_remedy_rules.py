"""The rules of remedies one by one: what stands in the way, who may approve, what is offered, what a policy wants."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot.act.policies import is_certain, next_action
from bot.advance.obstacles import has_a_person
from bot.incident import Incident, Kind, Quiet, QuietWhy, Tried
from bot.remedy.approvers import Approvers, no_longer, refusal
from bot.remedy.blockers import Facts, Stall, Switch, Wanted, blockers, unaccepted
from bot.remedy.look import plan, processes_of, seen, verdict_of
from bot.remedy.model import Approval, State
from bot.remedy.on_offer import Evidence, OnOffer, on_offer
from bot.render.drawing import Drawing
from bot.render.remedy_card import kill_list, remedy_card
from bot.render.words import words
from bot.store.remedies import Acted
from tests.bot.build_remedies import PROCESS, remedy
from tests.build import BOOT, EPOCH, FIRST_WINDOW, OTHER_BOOT, START, gpu_uuid, heartbeat
from tests.build_ticks import hung, tick
from wire.messages import GpuNow, Process, Verdict
from wire.orders import AcceptedProcess, Action
from wire.reasons import UNLISTED, Reason, ReasonCode
from wire.ticks import ApiState, CanaryOutcome, RunnerState, SignalClass

REBOOT, RESTART = Action.REBOOT_NODE, Action.RESTART_RUNNER
WANTED = Wanted(REBOOT, "gpu-07", "chat", BOOT, EPOCH, (PROCESS,), (), 1, "", "U0ALICE")
FINE = Facts(5.0, BOOT, EPOCH, offers=True, speaks=True, fence=3, processes=frozenset({PROCESS}))
NEW = AcceptedProcess(77, "900")


def names(wanted=WANTED, **changes):
    return [one.name for one in blockers(wanted, replace(FINE, **changes))]


def test_nothing_stands_in_the_way_of_what_is_as_it_was():
    assert names() == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"heard_seconds": 61.0}, ["silent"]),
        ({"heard_seconds": None}, ["never_heard"]),
        ({"lives": 2}, ["two_lives"]),
        ({"offers": False}, ["not_offered.reboot_node"]),
        ({"speaks": False}, ["no_version"]),
        ({"has_challenge": False}, ["no_version"]),
        ({"highest_fence": 4}, ["newer_bot"]),
        ({"boot_id": OTHER_BOOT}, ["other_boot"]),
        ({"spool_epoch": "another"}, ["other_spool"]),
        ({"processes": frozenset({PROCESS, NEW})}, ["grown"]),
        ({"processes": frozenset({AcceptedProcess(PROCESS.pid, "900")})}, ["grown"]),  # the PID was reused
        ({"processes": frozenset()}, []),  # one that ended is no obstacle
        ({"processes": None}, ["unreadable"]),
        ({"others": 2}, ["gpu_works"]),
        ({"sharing": ("embed",)}, ["shared_process"]),
        ({"stopped": Switch("host:root", START)}, ["stopped"]),
        ({"is_shadow": True}, ["shadow"]),
        ({"has_bus": False}, ["bus"]),
        ({"within_hours": False}, ["hours"]),
        ({"on_node": 1, "under_way": 1}, ["on_node"]),
        ({"under_way": 1}, ["under_way"]),
        ({"under_way": 1, "at_once": 2}, []),
        ({"reboots": 2}, ["budget"]),
        ({"claimed_by": "U0BOB"}, ["claimed"]),
        ({"stall": Stall.OVER}, ["recovered"]),
        ({"stall": Stall.OTHER}, ["other_verdict"]),
        ({"stall": Stall.UNSEEN}, ["unseen"]),
        ({"approvers": 0}, ["no_approvers"]),
        ({"is_guest": True}, ["guest"]),
        ({"gone": ("U0BOB",)}, ["approver_gone"]),
    ],
)
def test_each_obstacle_has_its_name(changes, expected):
    assert names(**changes) == expected


def test_all_are_listed_together_and_what_can_be_accepted_comes_last():
    assert names(heard_seconds=90.0, others=3, reboots=2, claimed_by="U0BOB") == [
        "silent",
        "budget",
        "claimed",
        "gpu_works",
    ]


def test_only_three_things_can_be_accepted():
    every = Facts(None, lives=2, highest_fence=9, processes=None, others=1, within_hours=False, on_node=1, reboots=2)
    readable = replace(FINE, others=1, sharing=("embed",), processes=frozenset({PROCESS}))
    found = [*blockers(WANTED, every), *blockers(WANTED, replace(FINE, processes=None)), *blockers(WANTED, readable)]
    assert {one.name for one in found if one.acceptable} == {"unreadable", "gpu_works", "shared_process"}


def test_what_was_accepted_by_name_is_no_obstacle_and_nothing_else_is():
    found = blockers(WANTED, replace(FINE, others=1, reboots=2))
    assert [one.name for one in unaccepted(found, ("gpu_works", "budget"))] == ["budget"]


def test_a_restart_ends_one_process_whatever_else_runs():
    wanted = replace(WANTED, action=RESTART)
    assert names(wanted, processes=frozenset({PROCESS, NEW})) == []
    assert names(wanted, processes=None) == ["unreadable"]  # the node asks for that word, too
    assert names(wanted, reboots=2) == []


def test_a_policy_needs_no_approver_and_both_configs():
    wanted = replace(WANTED, policy="auto_remedy: restart")
    assert names(wanted, approvers=0) == ["policy"]
    assert names(wanted, approvers=0, allows_policy=True) == []


def test_a_policy_leaves_a_stall_to_the_person_who_looks_after_it_and_an_approval_does_not():
    assert names(replace(WANTED, policy="auto_remedy: restart"), allows_policy=True, has_person=True) == ["person"]
    assert names(has_person=True) == []


# --- who may ---------------------------------------------------------------------------------------------------------

NAMED = Approvers(named=frozenset({"U0ALICE", "U0BOB", "host:root"}))
GROUP = Approvers(has_group=True, members=frozenset({"U0CAROL"}), members_seconds=10.0)


@pytest.mark.parametrize(
    ("user", "approvers", "changes", "expected"),
    [
        ("U0BOB", NAMED, {}, None),
        ("host:root", NAMED, {}, None),
        ("host:eve", NAMED, {}, "refused.not_approver"),
        ("U0EVE", NAMED, {}, "refused.not_approver"),
        ("U0ALICE", NAMED, {}, None),
        ("U0ALICE", NAMED, {"needed": 2}, "refused.own_request"),
        ("U0BOB", NAMED, {"approvals": (Approval("U0BOB", START),), "needed": 2}, "refused.approved_already"),
        ("U0BOB", replace(NAMED, guests=frozenset({"U0BOB"})), {}, "refused.guest"),
        ("U0CAROL", GROUP, {}, None),
        ("U0CAROL", replace(GROUP, unknown=frozenset({"U0CAROL"})), {}, "refused.person_unknown"),
        ("U0CAROL", replace(GROUP, members_seconds=901.0), {}, "refused.approvers_old"),
        ("U0CAROL", replace(GROUP, members_seconds=None), {}, "refused.approvers_old"),
        ("U0EVE", GROUP, {}, "refused.not_approver"),
    ],
)
def test_who_may_approve(user, approvers, changes, expected):
    assert refusal(remedy(**changes), user, approvers) == expected


def test_an_approval_of_somebody_who_may_not_any_more_is_named():
    request = remedy(approvals=(Approval("U0BOB", START), Approval("U0EVE", START)))
    assert list(no_longer(request, NAMED)) == ["U0EVE"]
    assert Approvers().is_nobody
    assert NAMED.people() == ["U0ALICE", "U0BOB"]


# --- what a card offers, and what a policy wants ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "changes", "expected"),
    [
        ("stalled", {}, OnOffer((RESTART,))),
        ("uncertain", {"has_witness": True}, OnOffer((RESTART,))),
        ("stalled", {"has_witness": True}, OnOffer((RESTART, REBOOT))),
        ("stalled", {"restarted": True}, OnOffer((RESTART, REBOOT))),
        ("stalled", {"restarted": True, "signal_class": SignalClass.Q}, OnOffer((RESTART,))),
        ("stalled", {"has_witness": True, "reboots": 2}, OnOffer((RESTART,), inspect=True)),
        ("load_stuck", {}, OnOffer((RESTART,))),
        ("erroring", {}, OnOffer((RESTART,))),
        ("down", {}, OnOffer()),
        ("degraded", {}, OnOffer()),
    ],
)
def test_what_a_card_offers(what, changes, expected):
    evidence = replace(Evidence(what, SignalClass.A, False, False, 0), **changes)
    assert on_offer(evidence, ["chat"], "chat", may_reboot=True) == expected


def test_what_the_node_does_not_allow_is_not_offered():
    evidence = Evidence("stalled", SignalClass.A, True, False, 0)
    assert on_offer(evidence, [], "chat", may_reboot=False) == OnOffer()


def acted(action, state, runner="chat", minutes_ago=20):
    return Acted("gpu-07", runner, action, state, START - timedelta(minutes=minutes_ago))


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], RESTART),
        ([acted(RESTART, State.FAILED)], REBOOT),
        ([acted(RESTART, State.DONE)], REBOOT),
        ([acted(RESTART, State.DONE, minutes_ago=61)], RESTART),  # a new stall begins with a restart again
        ([acted(RESTART, State.OUTCOME_UNKNOWN)], RESTART),
        ([acted(RESTART, State.DONE, "other")], RESTART),
        ([acted(RESTART, State.DONE), acted(REBOOT, State.DONE)], RESTART),
    ],
)
def test_a_policy_restarts_first(before, expected):
    assert next_action(Incident(1, Kind.RUNNER, "gpu-07/chat", START), before, START) is expected


def test_a_restart_for_this_very_stall_counts_however_long_its_proof_took():
    stall = Incident(1, Kind.RUNNER, "gpu-07/chat", START, tried=(Tried(2, RESTART, State.FAILED),))
    assert next_action(stall, [acted(RESTART, State.FAILED, minutes_ago=90)], START) is REBOOT


@pytest.mark.parametrize("came_to", [State.REFUSED, State.VOID, State.EXPIRED, State.COUNTING, State.OUTCOME_UNKNOWN])
def test_a_restart_that_was_never_done_for_this_stall_leads_to_no_reboot(came_to):
    """The one that is remembered was for a stall of hours ago, and helped."""
    stall = Incident(1, Kind.RUNNER, "gpu-07/chat", START, tried=(Tried(2, RESTART, came_to),))
    assert next_action(stall, [acted(RESTART, State.DONE, minutes_ago=900)], START) is RESTART


def test_a_restart_from_before_the_clock_was_set_back_is_not_one_of_this_hour():
    stall = Incident(1, Kind.RUNNER, "gpu-07/chat", START)
    assert next_action(stall, [acted(RESTART, State.DONE, minutes_ago=-400)], START) is RESTART


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (hung(), True),
        (hung(canary_timeouts=0), False),
        (hung(api=ApiState.TIMEOUT), False),
        (hung(no_progress_seconds=0.0), False),
        (hung(signal_class=SignalClass.Q), False),
    ],
)
def test_a_policy_acts_only_where_all_three_hold(look, expected):
    assert is_certain(look) is expected


def test_a_person_who_looks_at_it_ends_the_policy():
    incident = Incident(1, Kind.RUNNER, "gpu-07/chat", START)
    assert not has_a_person(incident)
    for changes in (
        {"acknowledged_by": "U0BOB"},
        {"disputed_by": "U0BOB"},
        {"quiet": Quiet(QuietWhy.SNOOZED, 9)},
        {"tried": (Tried(2, RESTART, State.STOPPED),)},
        {"tried": (Tried(2, RESTART, State.DENIED),)},
    ):
        assert has_a_person(replace(incident, **changes))


# --- what a heartbeat says -------------------------------------------------------------------------------------------


def beat(*gpus, looks=(), **changes):
    now = [GpuNow(i, gpu_uuid(i), Verdict.HELD, [], 1.0, found) for i, found in enumerate(gpus)]
    return heartbeat(FIRST_WINDOW, [], node="gpu-07", gpus=now, runners=list(looks), **changes)


def test_a_plan_names_every_process_with_its_owner_and_for_how_long_it_runs():
    one = Process(4321, user="bob", started="100", started_at=START)
    owners = {4321: Process(4321, started="100", pod="prod/chat-0"), 999: Process(999, started="1", command="old")}
    found = plan(REBOOT, "chat", beat([one], [Process(999, started="50")], []), owners, START + timedelta(hours=2))
    assert [line.key for line in found.shown] == ["remedy.process", "remedy.process_short", "remedy.no_process"]
    assert found.shown[0].texts == {"gpu": "0", "pid": "4321", "user": "bob", "what": "pod prod/chat-0"}
    assert found.shown[0].seconds == {"ran": 7200.0}
    assert found.shown[1].texts["what"] == "?"  # the PID was given to another process since
    assert found.processes == {AcceptedProcess(4321, "100"), AcceptedProcess(999, "50")}
    assert found.others == 2


def test_a_plan_counts_every_process_that_it_has_no_room_to_name():
    many = [Process(pid, started="1") for pid in range(1, 101)]
    found = plan(REBOOT, "", beat(many), {}, START)
    assert (len(found.processes), len(found.shown)) == (100, 13)
    text = "\n".join(map(str, kill_list(words("en"), found.shown)))
    assert text.endswith("+ 88 more")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (remedy(REBOOT, processes=(PROCESS, NEW)), "It kills 2 processes that are listed"),
        (remedy(REBOOT, processes=(), accepted=("unreadable",)), "What it kills cannot be read"),
        (remedy(RESTART, processes=(PROCESS, NEW)), "It kills 1 process that is listed"),
        (remedy(RESTART, processes=(), accepted=("unreadable",)), "It kills 1 process that is listed"),
    ],
)
def test_the_last_question_before_an_approval_says_how_many_processes_the_remedy_itself_kills(request_, expected):
    incident = Incident(14, Kind.REMEDY, "gpu-07/chat", START, remedy=request_)
    drawing = Drawing(incident, "t" * 22, set(), START)
    assert expected in str(remedy_card(words("en"), drawing, request_).blocks)


def test_the_runners_own_process_counts_as_its_own():
    looks = [hung(pid=4321, process_started="100")]
    found = plan(REBOOT, "chat", beat([Process(4321, started="100")], looks=looks), {}, START)
    assert found.others == 0
    assert (found.facts.pid, found.facts.started, found.facts.no_progress_seconds) == (4321, "100", 1020.0)


@pytest.mark.parametrize(
    "unreadable",
    [
        beat(None),
        beat([Process(4321)]),  # since when it runs is not known, so it could be another one
        beat([Process(4321, started="1")], errors=[]),
    ],
)
def test_what_cannot_be_read_is_never_nobody(unreadable):
    known = processes_of(unreadable)
    assert known is None or known == {AcceptedProcess(4321, "1")}


def test_a_list_that_was_cut_is_not_the_whole_list():
    cut = replace(beat([Process(4321, started="1")]).gpus[0], processes_cut=3)
    assert processes_of(replace(beat(), gpus=[cut])) is None


@pytest.mark.parametrize("code", sorted(UNLISTED))
def test_a_list_that_may_leave_processes_out_is_not_the_whole_list_even_when_it_is_empty(code):
    """Outside the host's PID namespace the driver leaves out other processes and reports success."""
    blind = replace(beat([]).gpus[0], verdict=Verdict.UNKNOWN, reasons=[Reason(code, "why")])
    told = replace(beat(), gpus=[blind])
    assert processes_of(told) is None
    assert next(line.key for line in plan(REBOOT, "", told, {}, START).shown) == "remedy.unreadable_process"


@pytest.mark.parametrize("found", [[], [Process(4321, started="1")]])
def test_a_list_whose_collector_cannot_list_all_is_not_the_whole_list_and_says_why(found):
    """nvidia-smi lists no graphics processes: a reboot would end them all the same."""
    why = "nvidia-smi cannot list graphics processes"
    told = replace(beat(), gpus=[replace(beat(found).gpus[0], unlisted=why)])
    assert processes_of(told) is None
    text = "\n".join(map(str, kill_list(words("en"), plan(REBOOT, "", told, {}, START).shown)))
    assert f"GPU 0: there may be more than is listed: {why}" in text
    assert ("PID 4321" in text) is bool(found)
    assert "no process is listed" not in text


def test_a_list_that_is_old_or_not_there_yet_is_not_the_list_of_now():
    assert processes_of(beat()) is None  # the agent has just started: there is no sample yet
    old = replace(beat([Process(4321, started="1")]).gpus[0], age_seconds=61.0)
    assert processes_of(replace(beat(), gpus=[old])) is None


LOST_GPU = Reason(ReasonCode.GPU_MISSING, f"{gpu_uuid(1)} (was index 1, H100)")


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([], {gpu_uuid(0), gpu_uuid(1)}),
        ([LOST_GPU], {gpu_uuid(0)}),
        ([Reason(ReasonCode.SAMPLE_ERROR, "the driver does not answer")], None),
        ([LOST_GPU, Reason(ReasonCode.GPU_MISSING, "one of which no UUID is told")], None),
    ],
)
def test_gpus_that_did_not_come_back_are_counted_and_a_reading_that_failed_counts_none(errors, expected):
    """A node that misses one lists all that it had, and says which is missing."""
    assert seen(remedy(sent_at=START), beat([], [], errors=errors), START).gpus == expected


def test_before_its_first_sample_a_node_has_not_lost_its_gpus():
    assert seen(remedy(sent_at=START), beat(), START).gpus is None


def test_a_canary_from_before_the_order_proves_nothing():
    request = remedy(RESTART, sent_at=START)
    good = tick(canary=CanaryOutcome.OK, canary_seconds_ago=30.0, pid=5, process_started="9")
    at = START + timedelta(seconds=20)
    assert not seen(request, beat(looks=[good]), at).runner.works
    assert seen(request, beat(looks=[good]), START + timedelta(seconds=40)).runner.works
    assert seen(request, beat(looks=[replace(good, age_seconds=120.0)]), at).runner is None


MOVES = {"has_moved": True, "pid": 5, "process_started": "9"}
NOBODY = {"pid": None, "process_started": ""}


@pytest.mark.parametrize(
    ("changes", "works"),
    [
        ({}, True),
        ({"state": RunnerState.UNLOADED}, False),
        ({"state": RunnerState.LOADING}, False),
        ({**NOBODY, "canary": CanaryOutcome.TIMEOUT}, False),
        ({**NOBODY, "canary": CanaryOutcome.OK, "canary_seconds_ago": 5.0}, True),
        ({**NOBODY, "canary": None}, True),  # nobody can ask it: there is nothing else
        ({**NOBODY, "canary": CanaryOutcome.CONFIG}, True),
    ],
)
def test_what_a_restart_sets_back_is_not_taken_for_work(changes, works):
    """Without its process it is not known for the runner of before, whose gauges fall to nothing: they move."""
    request, now = remedy(RESTART, sent_at=START), START + timedelta(seconds=60)
    assert seen(request, beat(looks=[tick(**{**MOVES, **changes})]), now).runner.works is works


def test_a_verdict_that_no_order_is_about_is_none():
    assert [str(verdict_of(what)) for what in ("stalled", "down", "unknown", "")] == ["stalled", "none", "none", "none"]
