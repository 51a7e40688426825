"""The states of cards of runners."""

from collections.abc import Iterable
from functools import cache

from msgspec.structs import replace

from bot.claims import Claim
from bot.incident import Incident, Kind, Quiet, QuietWhy, Said, step
from bot.judge.verdict import Presence
from bot.render.card import Drawing, card
from bot.render.message import Message
from bot.runners import Runners
from tests.bot.build_states import ALICE, BOB, EN, MINUTE, NODE, TOKEN, State
from tests.build import gpu_uuid, heartbeat
from tests.build_ticks import hung
from tests.stall_cases import all_cases, ticks
from wire.ticks import ApiState, Tick


def _found(looks: Iterable[tuple[float, Tick]]) -> Incident:
    """The incident of the runner chat after these looks, each with its minute."""
    runners, incident = Runners(), None
    for minute, tick in looks:
        named = replace(tick, runner="chat", api_milliseconds=4.2 if tick.api is ApiState.OK else None)
        runners.heard(heartbeat(None, [], node=NODE, runners=[named]), minute * 60)
        for finding in runners.findings(NODE, minute * 60, 0.0):
            incident, _ = step(incident, finding, tick.taken_at)
            assert incident is not None
            runners.note(incident)
    assert incident is not None
    return replace(incident, id=12)


@cache
def _stall() -> Incident:
    looks = [(minute / 2, hung(minute / 2, minutes=15 + minute / 2, usual_per_hour=340.0)) for minute in range(5)]
    return _found(looks)


def case(case_id: str) -> Message:
    """A replayed case as far as it is told."""
    return _runner(_found(ticks(next(one for one in all_cases() if one.id == case_id))))


def _runner(incident: Incident, **changes: object) -> Message:
    now = incident.opened_at + 2 * MINUTE
    return card(EN, Drawing(replace(incident, **changes), TOKEN, set(), now))


def _stalled_and_told() -> Message:
    return _runner(_stall(), mentions=(ALICE, BOB))


def _recovered() -> Message:
    at = _stall().opened_at
    ending = (Said("ending.moved"), Said("runner.lost_in_all", {"lost": "150"}))
    seen = {"acknowledged_by": ALICE, "acknowledged_at": at + 3 * MINUTE}
    return _runner(_stall(), closed_at=at + 11 * MINUTE, ending=ending, **seen)


def _not_a_stall() -> Message:
    at = _stall().opened_at + MINUTE
    return _runner(_stall(), disputed_by=BOB, disputed_at=at, disputed_why="it reads a prompt of 900,000 tokens")


def _claimed() -> Message:
    at = _stall().opened_at
    claim = Claim(NODE, gpu_uuid(0), 0, "U0CAROL", at - 60 * MINUTE, at + 180 * MINUTE, "a paper's last run")
    return card(EN, Drawing(_stall(), TOKEN, set(), at + 2 * MINUTE, claims=[claim]))


def _storm() -> Message:
    stalls = [replace(_stall(), id=30 + number, subject=f"gpu-{number:02}/chat") for number in range(5)]
    now = _stall().opened_at
    found = Incident(id=8, kind=Kind.STORM, subject="fleet", opened_at=now, members=24, members_open=5)
    return card(EN, Drawing(found, TOKEN, set(), now + 2 * MINUTE, members=stalls))


def _not_seen() -> Message:
    finding = _stall().finding
    assert finding is not None
    unknown = replace(finding, presence=Presence.UNKNOWN, changed_at=_stall().opened_at + MINUTE)
    return _runner(_stall(), finding=unknown)


def _maintenance() -> Message:
    return _runner(
        _stall(), quiet=Quiet(QuietWhy.MAINTENANCE, 1, _stall().opened_at + 90 * MINUTE, None, "new cooling")
    )


RUNNERS = [
    State(
        "stalled", "A runner does no work",
        "Process, API and work side by side: only work tells the truth. The people who look after the node are "
        "mentioned, once.",
        "STALL gpu-07 chat: 0 results, how many wait, what process, API and test requests say, and for whom it is.",
        _stalled_and_told,
    ),
    State(
        "uncertain", "A hang, or very long work",
        "Where both are possible, the card says so in its title.",
        "STALL? gpu-07 chat: 0 results, test requests unanswered: a hang, or very long work.",
        lambda: case("S38"),
    ),
    State(
        "down", "A runner is down",
        "Its process is gone, or its API does not answer.",
        "DOWN gpu-07 chat: its API has not answered, with the evidence.",
        lambda: case("S36"),
    ),
    State(
        "errors", "A runner answers with errors only",
        "Every test request failed.",
        "ERRORS gpu-07 chat: test requests failed, none worked.",
        lambda: case("S28"),
    ),
    State(
        "work-stuck", "Work waits and is not served",
        "Test requests work, so it is not the runner that hangs.",
        "WORK STUCK gpu-07 chat: how many wait, and test requests work.",
        lambda: case("S19"),
    ),
    State(
        "not-a-stall", "Somebody says that it works",
        "It is not said again until the runner was seen to work, and the report counts it.",
        "STALL gpu-07 chat, with the line: Bob says that it works, and why.",
        _not_a_stall,
    ),
    State(
        "claimed", "A stall on a node whose GPUs somebody has claimed",
        "The card says whose the GPUs are, before anybody thinks of a reboot.",
        "STALL gpu-07 chat, with the line: claimed, gpu-07 GPU 0 by Carol until 07:00, and why.",
        _claimed,
    ),
    State(
        "stall-in-maintenance", "A stall during planned work",
        "Nobody is mentioned until the planned work ends.",
        "STALL gpu-07 chat, with the line: maintenance until 13:32, new cooling.",
        _maintenance,
    ),
    State(
        "stall-not-seen", "A stall that cannot be seen any more",
        "The node or the runner cannot be read: it is neither called over nor said again.",
        "NOT SEEN gpu-07 chat: a runner is stalled, as far as it was known, and since when it cannot be told.",
        _not_seen,
    ),
    State(
        "recovered", "Recovered",
        "The card itself turns: what it was, how long it lasted, what ended it.",
        "RECOVERED gpu-07 chat: over since when, how long it lasted. No buttons.",
        _recovered,
    ),
    State(
        "storm", "More than 20 new incidents in a minute",
        "One card in place of twenty.",
        "STORM 5 incidents are open: a table with a row for each.",
        _storm,
    ),
]  # fmt: skip
