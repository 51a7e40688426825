"""The states of cards of GPUs, and of a claim."""

from msgspec.structs import replace

from bot.claims import Claim
from bot.incident import CardState, Incident, Kind, Quiet, QuietWhy
from bot.judge.track import LastHeld
from bot.judge.verdict import Because
from bot.render.claims import ASK, claim_notice, values_of
from bot.render.message import Message
from tests.bot.build_cards import NOW, candidate, gpu
from tests.bot.build_states import ALICE, BOB, EN, MINUTE, NODE, TOKEN, State, drawn
from tests.build import gpu_uuid
from wire.messages import Process

TWO = (gpu(0), gpu(1, last_held=None))
BOTH = frozenset({gpu_uuid(0), gpu_uuid(1)})
SNOOZED = Quiet(QuietWhy.SNOOZED, 1, NOW + 4 * 60 * MINUTE, BOB, "new driver")
HELD = LastHeld(4, NOW, Process(77, user="carol", command="python serve.py"))


def _free(**changes: object) -> Message:
    return drawn(candidate(*TWO, **changes), BOTH)


def _acknowledged() -> Message:
    return _free(acknowledged_by=ALICE, acknowledged_at=NOW - MINUTE, quiet=SNOOZED)


def _pending() -> Message:
    return drawn(candidate(gpu(0)))


def _not_judged() -> Message:
    return drawn(
        candidate(
            gpu(0, CardState.NOT_JUDGED, because=Because.HEARTBEAT_OLD, detail="180 s", changed_at=NOW - 3 * MINUTE)
        )
    )


def _in_use() -> Message:
    return drawn(candidate(gpu(0, CardState.DISPUTED), disputed_by=BOB, disputed_at=NOW))


def _one_left() -> Message:
    left = gpu(1, CardState.LEFT, because=Because.SAMPLE_HELD, detail="memory_held", changed_at=NOW - MINUTE)
    return drawn(candidate(gpu(0), left), frozenset({gpu_uuid(0)}))


def _over() -> Message:
    left = gpu(
        0, CardState.LEFT, because=Because.SAMPLE_HELD, detail="memory_held", changed_at=NOW - MINUTE, last_held=HELD
    )
    return drawn(candidate(left, acknowledged_by=ALICE, acknowledged_at=NOW - 9 * MINUTE, closed_at=NOW))


def _fleet() -> Message:
    members = [replace(candidate(gpu(index)), subject=f"gpu-{index + 1:02}", id=20 + index) for index in range(6)]
    found = Incident(id=8, kind=Kind.FLEET, subject="fleet", opened_at=NOW, members=7, members_open=6)
    return drawn(found, frozenset(gpu_uuid(index) for index in range(5)), members=members)


def _claim_ends() -> Message:
    claim = Claim(NODE, gpu_uuid(0), 0, ALICE, NOW - 240 * MINUTE, NOW + 15 * MINUTE, token=TOKEN)
    return claim_notice(EN, ASK, values_of(claim))


GPUS = [
    State(
        "free", "GPUs that are free",
        "Posted after three idle windows in a row, one card per node. The values are those of the last three windows.",
        "FREE gpu-07: 2 GPUs free. For each GPU: since when, utilisation, memory and processes of three windows, "
        "who had it last, model and UUID. Buttons Acknowledge and Snooze, and a menu.",
        _free,
    ),
    State(
        "free-acknowledged", "Acknowledged and snoozed",
        "Who has seen it, and until when nothing more is said about it. The button Acknowledge is gone.",
        "The same card with the lines: acknowledged by Alice, snoozed by Bob until 07:00, new driver.",
        _acknowledged,
    ),
    State(
        "being-judged", "Being judged",
        "It was free, and this moment that cannot be confirmed: a window is still on its way. Do not count on it yet.",
        "BEING JUDGED gpu-07: 1 being judged. Its newest window is not in yet.",
        _pending,
    ),
    State(
        "not-judged", "Not judged",
        "What could not be read is never called free.",
        "NOT JUDGED gpu-07: 1 not judged, since when and why. Do not count on it.",
        _not_judged,
    ),
    State(
        "in-use", "Somebody says that it was in use",
        "Our mistake: the GPU is not called free again until it was really used, and the report counts it.",
        "SAID TO BE IN USE gpu-07: said by Bob, not called free again until it was really used.",
        _in_use,
    ),
    State(
        "one-left", "One GPU is taken",
        "The card is edited within a second of the sample that saw it; nothing is posted.",
        "FREE gpu-07: 1 GPU free, 1 no longer free. GPU 1 was taken a minute ago.",
        _one_left,
    ),
    State(
        "over", "Over",
        "No GPU of the card is free any more. The buttons go, the sum of idle time stays.",
        "OVER gpu-07: 1 no longer free, since when and why, and for how long it had been idle. No buttons.",
        _over,
    ),
    State(
        "fleet", "Many nodes at once",
        "Once five node cards were opened within 15 minutes, further nodes share one card.",
        "FREE 5 GPUs on 6 nodes: a table with a row for each node.",
        _fleet,
    ),
    State(
        "claim-ends", "A claim that is about to end",
        "A direct message to the holder. Without an answer the claim ends.",
        "Your claim of gpu-07 GPU 0 ends at 03:15. Do you still need it? Buttons Keep 4 h, Until tomorrow, Release.",
        _claim_ends,
    ),
]  # fmt: skip
