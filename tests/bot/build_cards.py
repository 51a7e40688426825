"""Builders of what candidate cards show."""

from datetime import timedelta

from bot.incident import CardGpu, CardState, Incident, Kind
from bot.judge.track import Evidence, LastHeld
from tests.build import START, gpu_uuid
from wire.messages import Process

NOW = START + timedelta(hours=3)
IDLE = tuple(Evidence(number, NOW, 0, 0, 0) for number in (7, 8, 9))


def gpu(index=0, state=CardState.CONFIRMED, **changes):
    values = {
        "uuid": gpu_uuid(index),
        "index": index,
        "model": "NVIDIA H100 80GB HBM3",
        "state": state,
        "since": NOW - timedelta(minutes=25),
        "changed_at": NOW,
        "window_seconds": 300.0,
        "streak": 5,
        "judged_up_to": 9,
        "evidence": IDLE,
        "last_held": LastHeld(4, NOW - timedelta(hours=1), Process(4321, user="alice", command="python train.py")),
    }
    return CardGpu(**{**values, **changes})


def candidate(*gpus, **changes):
    values = {"id": 7, "kind": Kind.CANDIDATE, "subject": "gpu-07", "opened_at": NOW, "gpus": gpus}
    return Incident(**{**values, **changes})
