"""The states of a request for a remedy, for the table in card_states.py."""

from bot.incident import Incident, Kind
from bot.judge.verdict import Said
from bot.remedy.model import Answered, Approve, Blocked, Deny, NoAnswer, Remedy, RemedyEvent, Send, Stop, Tick
from bot.remedy.step import step
from bot.render.card import Drawing, card
from bot.render.message import Message
from bot.render.words import words
from tests.bot.build_remedies import MINUTE, NEW_PID, PROCESS, counting, remedy, seen
from tests.build import OTHER_BOOT, START
from wire.orders import AcceptedProcess, Action

EN = words("en")
ALICE, BOB = "U0ALICE", "U0BOB"
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
    return card(EN, Drawing(incident, "t" * 22, set(), START + at_minutes * MINUTE, audit_head="9f3c2a77"))


def _reboot(**changes: object) -> Remedy:
    return remedy(shown=SHOWN, processes=BOTH, **changes)


def _restart(**changes: object) -> Remedy:
    shown = (Said("remedy.process_of_runner", {"pid": "4321", "runner": "chat"}),)
    return remedy(Action.RESTART_RUNNER, shown=shown, **changes)


def approval_wanted() -> Message:
    return _card(_reboot(), mentions=(ALICE, BOB))


def counting_down() -> Message:
    return _card(counting(counting_since=START))


def in_progress() -> Message:
    back = seen(OTHER_BOOT, minutes=4.0, gpus=7, process=NEW_PID)
    return _card(walked(_reboot(), Approve(BOB), SEND, Answered(True), seen(), back), 4)


def done() -> Message:
    back = seen(OTHER_BOOT, minutes=5.0, works=True, process=NEW_PID)
    return _card(walked(_reboot(), Approve(BOB), SEND, Answered(True), seen(), back), 5)


def refused() -> Message:
    return _card(walked(_restart(), Approve(BOB), SEND, Answered(False, "it answered a test request just now")), 3)


def denied() -> Message:
    return _card(walked(_restart(), Deny(BOB)))


def stopped() -> Message:
    return _card(walked(counting(counting_since=START), Stop(BOB)))


def expired() -> Message:
    return _card(walked(_reboot(), *[Tick()] * 12), 11)


def failed() -> Message:
    return _card(walked(_restart(), Approve(BOB), SEND, Answered(True), *[Tick()] * 60), 60)


def void() -> Message:
    silent = Blocked((Said("blocker.silent", seconds={"length": 130.0}),))
    return _card(walked(_reboot(), Approve(BOB), silent), 2)


def outcome_unknown() -> Message:
    return _card(walked(_reboot(), Approve(BOB), SEND, NoAnswer(), *[Tick()] * 60), 30)
