"""The states of cards of a request for a remedy."""

from bot.incident import Incident, Kind
from bot.judge.verdict import Said
from bot.remedy.model import Answered, Approve, Blocked, Deny, NoAnswer, Remedy, RemedyEvent, Send, Stop, Tick
from bot.remedy.step import step
from bot.render.card import Drawing, card
from bot.render.message import Message
from tests.bot.build_remedies import MINUTE, NEW_PID, PROCESS, counting, remedy, seen
from tests.bot.build_states import ALICE, BOB, EN, TOKEN, State
from tests.build import OTHER_BOOT, START
from wire.orders import AcceptedProcess, Action

_LIST = {"gpu": "0", "pid": "4321", "user": "bob", "what": "vllm serve", "ran": "16 h"}
_OTHER = {"gpu": "1", "pid": "999", "user": "carol", "what": "python train.py", "ran": "3 d"}
SHOWN = (Said("remedy.process", _LIST), Said("remedy.process", _OTHER))
BOTH = (PROCESS, AcceptedProcess(999, "50"))
SEND = Send("order-1", 3)


def walked(request: Remedy, *events: RemedyEvent, minutes: float = 1.0) -> Remedy:
    """After the events, the first at once and then one every so many minutes."""
    for number, event in enumerate(events):
        request, _ = step(request, event, START + number * minutes * MINUTE)
    return request


def _card(request: Remedy, at_minutes: float = 1.0, **changes: object) -> Message:
    incident = Incident(
        id=14, kind=Kind.REMEDY, subject=f"{request.node}/{request.runner}", opened_at=START, remedy=request,
        closed_at=request.ended_at, **changes,
    )  # fmt: skip
    return card(EN, Drawing(incident, TOKEN, set(), START + at_minutes * MINUTE, audit_head="9f3c2a77"))


def _reboot(**changes: object) -> Remedy:
    return remedy(shown=SHOWN, processes=BOTH, **changes)


def _restart(**changes: object) -> Remedy:
    shown = (Said("remedy.process_of_runner", {"pid": "4321", "runner": "chat"}),)
    return remedy(Action.RESTART_RUNNER, shown=shown, **changes)


def _approval_wanted() -> Message:
    return _card(_reboot(), mentions=(ALICE, BOB))


def _counting_down() -> Message:
    return _card(counting(counting_since=START))


def _in_progress() -> Message:
    back = seen(OTHER_BOOT, minutes=4.0, gpus=7, process=NEW_PID)
    return _card(walked(_reboot(), Approve(BOB), SEND, Answered(True), seen(), back), 4)


def _done() -> Message:
    back = seen(OTHER_BOOT, minutes=5.0, works=True, process=NEW_PID)
    return _card(walked(_reboot(), Approve(BOB), SEND, Answered(True), seen(), back), 5)


def _refused() -> Message:
    return _card(walked(_restart(), Approve(BOB), SEND, Answered(False, "it answered a test request just now")), 3)


def _denied() -> Message:
    return _card(walked(_restart(), Deny(BOB)))


def _stopped() -> Message:
    return _card(walked(counting(counting_since=START), Stop(BOB)))


def _expired() -> Message:
    return _card(walked(_reboot(), *[Tick()] * 12), 11)


def _failed() -> Message:
    return _card(walked(_restart(), Approve(BOB), SEND, Answered(True), *[Tick()] * 60), 60)


def _void() -> Message:
    silent = Blocked((Said("blocker.silent", seconds={"length": 130.0}),))
    return _card(walked(_reboot(), Approve(BOB), silent), 2)


def _outcome_unknown() -> Message:
    return _card(walked(_reboot(), Approve(BOB), SEND, NoAnswer(), *[Tick()] * 60), 30)


REMEDIES = [
    State(
        "approval-wanted", "A remedy waits for approval",
        "Who asked and why, and what it kills. Nothing happens without an approval, and after 10 minutes it ends.",
        "APPROVAL WANTED gpu-07 chat: reboot of the node. A list of the processes that will be killed, with their "
        "owners. Buttons Approve and Deny.",
        _approval_wanted,
    ),
    State(
        "countdown", "A policy's countdown",
        "Only where the operator wrote such a policy into both configs. Anybody may stop it.",
        "COUNTDOWN gpu-07 chat: restart of the runner, unless somebody stops it. A button Stop.",
        _counting_down,
    ),
    State(
        "under-way", "A remedy under way",
        "Each part of the proof with its own deadline. A reply of the node is no proof.",
        "UNDER WAY gpu-07 chat: the node was started anew; open are its GPUs, 7 of 8 are there, and real work.",
        _in_progress,
    ),
    State(
        "remedy-done", "A remedy that is proved",
        "Done means that real work gets done again.",
        "DONE gpu-07 chat: reboot of the node, proved. All four parts are done, with their times.",
        _done,
    ),
    State(
        "remedy-failed", "A remedy that failed",
        "What was not seen in time. Nothing is tried again by itself.",
        "FAILED gpu-07 chat: restart of the runner. What ended it: the runner is still the process of before.",
        _failed,
    ),
    State(
        "remedy-refused", "The node refused",
        "The node looks once more, right before it acts: here the runner had answered by then.",
        "NOT DONE gpu-07 chat: the node refused the restart of the runner, and why.",
        _refused,
    ),
    State(
        "remedy-denied", "Denied",
        "Somebody who may approve said no.",
        "NOT DONE gpu-07 chat: the restart of the runner was denied, by Bob.",
        _denied,
    ),
    State(
        "remedy-stopped", "A countdown that was stopped",
        "Nothing was sent.",
        "NOT DONE gpu-07 chat: the restart of the runner was stopped, by Bob.",
        _stopped,
    ),
    State(
        "remedy-expired", "Nobody approved in time",
        "Nothing was sent, and nobody can approve it any more.",
        "NOT DONE gpu-07 chat: nobody approved the reboot of the node in time.",
        _expired,
    ),
    State(
        "remedy-void", "Something stood in the way at the last moment",
        "Every obstacle is asked for again right before the order leaves.",
        "NOT DONE gpu-07 chat: the last heartbeat of the node is 2 min old.",
        _void,
    ),
    State(
        "remedy-unknown", "Nobody knows what became of it",
        "The node took the order, or not; it is never sent again.",
        "OUTCOME UNKNOWN gpu-07 chat: reboot of the node, and what to do now.",
        _outcome_unknown,
    ),
]  # fmt: skip
