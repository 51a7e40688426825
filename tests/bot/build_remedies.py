"""Builders of requests for remedies, and strategies for whatever can happen to one."""

from datetime import timedelta

from hypothesis import strategies as st
from msgspec.structs import replace

from bot.judge.verdict import Said
from bot.remedy.model import (
    Answered,
    Approve,
    Blocked,
    Counted,
    Deny,
    Needed,
    NoAnswer,
    NobodyThere,
    Remedy,
    RunnerSeen,
    Seen,
    Send,
    State,
    Stop,
    Tick,
    Times,
)
from tests.build import BOOT, EPOCH, OTHER_BOOT, START, gpu_uuid
from wire.orders import AcceptedProcess, Action, OrderVerdict, RunnerFacts
from wire.remedies import OrderState
from wire.ticks import SignalClass

MINUTE = timedelta(minutes=1)
GPUS = tuple(gpu_uuid(index) for index in range(8))
PROCESS = AcceptedProcess(4321, "100")
NEW_PID, OLD_PID = (4400, "900"), (4321, "100")


def remedy(action=Action.REBOOT_NODE, **changes):
    values = {
        "action": action,
        "node": "gpu-07",
        "group": "default",
        "asked_by": "U0ALICE",
        "asked_at": START,
        "expires_at": START + Times().approval,
        "reason": "it hangs since midnight",
        "boot_id": BOOT,
        "spool_epoch": EPOCH,
        "times": Times(),
        "runner": "chat",
        "about": 1,
        "processes": (PROCESS,),
        "gpus": GPUS,
        "verdict": OrderVerdict.STALLED,
        "facts": RunnerFacts("chat", SignalClass.A, "epoch 1", pid=4321, started="100"),
    }
    return Remedy(**{**values, **changes})


def counting(**changes):
    return remedy(
        Action.RESTART_RUNNER, asked_by="", policy="auto_remedy: restart", state=State.COUNTING, reason="", **changes
    )


def seen(boot=BOOT, *, minutes=1.0, gpus=8, works=False, process=OLD_PID, **changes):
    values = {
        "boot_id": boot,
        "heard_at": START + minutes * MINUTE,
        "gpus": None if gpus is None else frozenset(GPUS[:gpus]),
        "runner": RunnerSeen("epoch", *process, works=works),
    }
    return Seen(**{**values, **changes})


EVENTS = st.one_of(
    st.builds(Approve, st.sampled_from(["U0ALICE", "U0BOB", "U0CAROL"])),
    st.builds(Needed, st.integers(1, 2)),
    st.builds(Deny, st.just("U0BOB")),
    st.builds(Stop, st.just("U0BOB")),
    st.builds(Counted, st.booleans()),
    st.builds(Blocked, st.just((Said("blocker.silent"),))),
    st.builds(Send, st.sampled_from(["order-1", "order-2"]), st.just(3)),
    st.builds(Answered, st.booleans(), st.just("recovered meanwhile")),
    st.just(NobodyThere()),
    st.just(NoAnswer()),
    st.just(Tick()),
    st.builds(
        lambda boot, word, gpus, works, process, minutes: seen(
            boot, word=word, gpus=gpus, works=works, process=process, minutes=minutes
        ),
        st.sampled_from([BOOT, OTHER_BOOT]),
        st.none() | st.sampled_from(OrderState),
        st.none() | st.integers(7, 8),
        st.booleans(),
        st.sampled_from([OLD_PID, NEW_PID]),
        st.integers(0, 60),
    ),
)
# The likely next events come often, so that long ways are walked too.
LIKELY = st.sampled_from(
    [Approve("U0BOB"), Counted(True), Send("order-1", 3), Answered(True), seen(OTHER_BOOT, works=True, process=NEW_PID)]
)
SEQUENCES = st.lists(st.tuples(st.integers(0, 300), LIKELY | EVENTS), max_size=25)
REQUESTS = st.sampled_from([remedy(), remedy(needed=2), remedy(Action.RESTART_RUNNER), counting()])

__all__ = ["replace"]
