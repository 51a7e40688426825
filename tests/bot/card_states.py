"""The table of states of cards: what `docs/cards.md` shows, and what tests/cases/cards keeps word for word."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from msgspec.structs import replace

from bot.claims import Claim
from bot.incident import CardState, Finding, Incident, Kind, Quiet, QuietWhy, Said, step
from bot.judge.track import LastHeld
from bot.judge.verdict import Because, Presence
from bot.render.card import Drawing, card
from bot.render.claims import ASK, claim_notice, values_of
from bot.render.message import Message
from bot.render.words import words
from bot.runners import Runners
from tests.bot import remedy_states, report_state
from tests.bot.build_cards import NOW, candidate, gpu
from tests.build import gpu_uuid, heartbeat
from tests.build_ticks import hung
from tests.stall_cases import all_cases, ticks
from wire.messages import Process
from wire.ticks import ApiState, Tick

EN = words("en")
TOKEN = "t" * 22
NODE = "gpu-07"
ALICE, BOB = "U0ALICE", "U0BOB"
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class State:
    """`about` is what a reader should know of it; `alt` says what the picture shows, for those who do not see it."""

    name: str
    title: str
    about: str
    alt: str
    draw: Callable[[], Message]


def _card(incident: Incident, free_now: frozenset[str] = frozenset(), **changes: object) -> Message:
    return card(EN, Drawing(incident, TOKEN, free_now, NOW, **changes))


# --- free GPUs ------------------------------------------------------------------------------------------------------

TWO = (gpu(0), gpu(1, last_held=None))
BOTH = frozenset({gpu_uuid(0), gpu_uuid(1)})
SNOOZED = Quiet(QuietWhy.SNOOZED, 1, NOW + 4 * 60 * MINUTE, BOB, "new driver")


def _free(**changes: object) -> Message:
    return _card(candidate(*TWO, **changes), BOTH)


def _acknowledged() -> Message:
    return _free(acknowledged_by=ALICE, acknowledged_at=NOW - MINUTE, quiet=SNOOZED)


def _pending() -> Message:
    return _card(candidate(gpu(0)))


def _not_judged() -> Message:
    return _card(
        candidate(
            gpu(0, CardState.NOT_JUDGED, because=Because.HEARTBEAT_OLD, detail="180 s", changed_at=NOW - 3 * MINUTE)
        )
    )


def _in_use() -> Message:
    return _card(candidate(gpu(0, CardState.DISPUTED), disputed_by=BOB, disputed_at=NOW))


def _one_left() -> Message:
    left = gpu(1, CardState.LEFT, because=Because.SAMPLE_HELD, detail="memory_held", changed_at=NOW - MINUTE)
    return _card(candidate(gpu(0), left), frozenset({gpu_uuid(0)}))


def _over() -> Message:
    left = gpu(
        0, CardState.LEFT, because=Because.SAMPLE_HELD, detail="memory_held", changed_at=NOW - MINUTE, last_held=_HELD
    )
    return _card(candidate(left, acknowledged_by=ALICE, acknowledged_at=NOW - 9 * MINUTE, closed_at=NOW))


_HELD = LastHeld(4, NOW, Process(77, user="carol", command="python serve.py"))


def _fleet() -> Message:
    members = [replace(candidate(gpu(index)), subject=f"gpu-{index + 1:02}", id=20 + index) for index in range(6)]
    found = Incident(id=8, kind=Kind.FLEET, subject="fleet", opened_at=NOW, members=7, members_open=6)
    return _card(found, frozenset(gpu_uuid(index) for index in range(5)), members=members)


# --- runners --------------------------------------------------------------------------------------------------------


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


def _case(case_id: str) -> Message:
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


def _claim_ends() -> Message:
    claim = Claim(NODE, gpu_uuid(0), 0, ALICE, NOW - 240 * MINUTE, NOW + 15 * MINUTE, token=TOKEN)
    return claim_notice(EN, ASK, values_of(claim))


# --- what cannot be seen, and what is broken -------------------------------------------------------------------------


def _finding(kind: Kind, *lines: Said, presence: Presence = Presence.PRESENT, **changes: object) -> Incident:
    values = {"seconds": {"length": 240.0}} if kind is not Kind.GPU_SICK else {"texts": {"indexes": "3"}}
    title = Said(f"title.{kind}", **changes.pop("title", values))
    found = Finding(
        kind=kind, subject=NODE, presence=presence, what=str(kind), since=NOW - 4 * MINUTE, title=title, lines=lines,
        last_known=changes.pop("last_known", ()),
    )  # fmt: skip
    return Incident(id=9, kind=kind, subject=NODE, opened_at=NOW, finding=found, **changes)


_KNOWN = (Said("known.gpus", {"held": "6", "candidate": "2", "unknown": "0"}, instants={"at": NOW - 5 * MINUTE}),)
_SILENT = Said("evidence.silent", instants={"at": NOW - 4 * MINUTE})


def _node_lost() -> Message:
    return _card(_finding(Kind.NODE_LOST, _SILENT, last_known=_KNOWN, mentions=(ALICE,)))


def _clock_wrong() -> Message:
    line = Said("evidence.clock_behind", seconds={"length": 240.0})
    return _card(_finding(Kind.CLOCK_WRONG, line))


def _gpu_sick() -> Message:
    line = Said("evidence.gpu_sick", texts={"index": "3", "uuid": gpu_uuid(3), "action": "GPU reset"})
    return _card(_finding(Kind.GPU_SICK, line))


def _many_blind() -> Message:
    members = [replace(_finding(Kind.NODE_LOST, _SILENT), subject=f"gpu-{number:02}") for number in range(5)]
    found = Incident(id=8, kind=Kind.MANY_BLIND, subject="fleet", opened_at=NOW, members=5, members_open=5)
    return _card(found, members=members)


def _reading_broken() -> Message:
    line = Said("reason.sample_error", {"detail": "nvmlInit: driver and library versions differ"})
    found = _finding(Kind.READING_BROKEN, line, title={"seconds": {"length": 600.0}})
    return _card(replace(found, finding=replace(found.finding, since=NOW - 10 * MINUTE)))


def _processes_hidden() -> Message:
    line = Said("reason.process_view", {"detail": "the agent is in a PID namespace of its own"})
    return _card(_finding(Kind.PROCESSES_HIDDEN, line, title={}))


def _two_agents() -> Message:
    return _card(_finding(Kind.TWO_AGENTS, Said("evidence.two_agents", {"count": "2"}), title={}))


def _gpu_gone() -> Message:
    line = Said("reason.gpu_missing", {"detail": gpu_uuid(3)})
    return _card(_finding(Kind.GPU_GONE, line, title={"texts": {"count": "1"}}))


def _stream_backlog() -> Message:
    found = _finding(Kind.STREAM_BACKLOG, Said("backlog.bus"))
    assert found.finding is not None
    return _card(replace(found, subject="bot", finding=replace(found.finding, subject="bot")))


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


STATES = [
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
        lambda: _case("S38"),
    ),
    State(
        "down", "A runner is down",
        "Its process is gone, or its API does not answer.",
        "DOWN gpu-07 chat: its API has not answered, with the evidence.",
        lambda: _case("S36"),
    ),
    State(
        "errors", "A runner answers with errors only",
        "Every test request failed.",
        "ERRORS gpu-07 chat: test requests failed, none worked.",
        lambda: _case("S28"),
    ),
    State(
        "not-a-stall", "Somebody says that it works",
        "It is not said again until the runner was seen to work, and the report counts it.",
        "STALL gpu-07 chat, with the line: Bob says that it works, and why.",
        _not_a_stall,
    ),
    State(
        "recovered", "Recovered",
        "The card itself turns: what it was, how long it lasted, what ended it.",
        "RECOVERED gpu-07 chat: over since when, how long it lasted. No buttons.",
        _recovered,
    ),
    State(
        "node-lost", "A node cannot be seen",
        "Its title begins with BLIND. While it is open, nothing is said about the node's GPUs and runners.",
        "BLIND gpu-07: no word from the node for 4 min, and what was known before: 6 GPUs in use, 2 idle.",
        _node_lost,
    ),
    State(
        "clock-wrong", "A node's clock is wrong",
        "From 60 s on: its times would mislead people.",
        "BLIND gpu-07: its clock and the bot's differ by 4 min.",
        _clock_wrong,
    ),
    State(
        "gpu-sick", "A GPU asks for a recovery action",
        "The driver's own word; nothing is done by itself.",
        "GPU SICK gpu-07: GPU 3 asks for a recovery action, a GPU reset.",
        _gpu_sick,
    ),
    State(
        "many-blind", "Many nodes at once cannot be seen",
        "At least three and at least a fifth of the fleet: one card in place of one for each.",
        "BLIND 5 nodes cannot be seen: a table with a row for each node.",
        _many_blind,
    ),
    State(
        "approval-wanted", "A remedy waits for approval",
        "Who asked and why, and what it kills. Nothing happens without an approval, and after 10 minutes it ends.",
        "APPROVAL WANTED gpu-07 chat: reboot of the node. A list of the processes that will be killed, with their "
        "owners. Buttons Approve and Deny.",
        remedy_states.approval_wanted,
    ),
    State(
        "countdown", "A policy's countdown",
        "Only where the operator wrote such a policy into both configs. Anybody may stop it.",
        "COUNTDOWN gpu-07 chat: restart of the runner, unless somebody stops it. A button Stop.",
        remedy_states.counting_down,
    ),
    State(
        "under-way", "A remedy under way",
        "Each part of the proof with its own deadline. A reply of the node is no proof.",
        "UNDER WAY gpu-07 chat: the node was started anew; open are its GPUs, 7 of 8 are there, and real work.",
        remedy_states.in_progress,
    ),
    State(
        "remedy-done", "A remedy that is proved",
        "Done means that real work gets done again.",
        "DONE gpu-07 chat: reboot of the node, proved. All four parts are done, with their times.",
        remedy_states.done,
    ),
    State(
        "remedy-failed", "A remedy that failed",
        "What was not seen in time. Nothing is tried again by itself.",
        "FAILED gpu-07 chat: restart of the runner. What ended it: the runner is still the process of before.",
        remedy_states.failed,
    ),
    State(
        "remedy-refused", "The node refused",
        "The node looks once more, right before it acts: here the runner had answered by then.",
        "NOT DONE gpu-07 chat: the node refused the restart of the runner, and why.",
        remedy_states.refused,
    ),
    State(
        "remedy-denied", "Denied",
        "Somebody who may approve said no.",
        "NOT DONE gpu-07 chat: the restart of the runner was denied, by Bob.",
        remedy_states.denied,
    ),
    State(
        "remedy-stopped", "A countdown that was stopped",
        "Nothing was sent.",
        "NOT DONE gpu-07 chat: the restart of the runner was stopped, by Bob.",
        remedy_states.stopped,
    ),
    State(
        "remedy-expired", "Nobody approved in time",
        "Nothing was sent, and nobody can approve it any more.",
        "NOT DONE gpu-07 chat: nobody approved the reboot of the node in time.",
        remedy_states.expired,
    ),
    State(
        "claimed", "A stall on a node whose GPUs somebody has claimed",
        "The card says whose the GPUs are, before anybody thinks of a reboot.",
        "STALL gpu-07 chat, with the line: claimed, gpu-07 GPU 0 by Carol until 07:00, and why.",
        _claimed,
    ),
    State(
        "claim-ends", "A claim that is about to end",
        "A direct message to the holder. Without an answer the claim ends.",
        "Your claim of gpu-07 GPU 0 ends at 03:15. Do you still need it? Buttons Keep 4 h, Until tomorrow, Release.",
        _claim_ends,
    ),
    State(
        "weekly-report", "The weekly report",
        "On Monday morning, and for any days by `/gpu-report`. The map has a digit for each hour: tenths of idle time.",
        "Report: GPU-hours idle and held, energy and cost, stalls, how often we were right, what stands out, and the "
        "week as a map of digits.",
        report_state.weekly_report,
    ),
    State(
        "stall-not-seen", "A stall that cannot be seen any more",
        "The node or the runner cannot be read: it is neither called over nor said again.",
        "NOT SEEN gpu-07 chat: a runner is stalled, as far as it was known, and since when it cannot be told.",
        _not_seen,
    ),
    State(
        "stall-in-maintenance", "A stall during planned work",
        "Nobody is mentioned until the planned work ends.",
        "STALL gpu-07 chat, with the line: maintenance until 13:32, new cooling.",
        _maintenance,
    ),
    State(
        "work-stuck", "Work waits and is not served",
        "Test requests work, so it is not the runner that hangs.",
        "WORK STUCK gpu-07 chat: how many wait, and test requests work.",
        lambda: _case("S19"),
    ),
    State(
        "runner-blind", "A runner cannot be read",
        "What cannot be read is never called well, and never called stalled.",
        "BLIND gpu-07 chat: nothing could be read for 10 min.",
        lambda: _case("L33"),
    ),
    State(
        "reading-broken", "A node's GPUs cannot be read",
        "Two windows in a row, with the driver's own words.",
        "BLIND gpu-07: its GPUs cannot be read for 10 min, driver and library versions differ.",
        _reading_broken,
    ),
    State(
        "processes-hidden", "Who uses the GPUs cannot be proved",
        "Then nothing on this node is called free.",
        "BLIND gpu-07: who uses its GPUs cannot be proved, the agent is in a PID namespace of its own.",
        _processes_hidden,
    ),
    State(
        "two-agents", "Two agents use one name",
        "One of them would be believed for the other.",
        "BLIND gpu-07: two agents report under this name.",
        _two_agents,
    ),
    State(
        "gpu-gone", "A GPU is gone",
        "The node had it before, and its driver does not show it any more.",
        "GPU GONE gpu-07: 1 missing, with its UUID.",
        _gpu_gone,
    ),
    State(
        "backlog", "The bot itself is late",
        "It says so before anybody believes an old word of it.",
        "BLIND this bot: windows are not read in time for 4 min, the bus cannot be reached.",
        _stream_backlog,
    ),
    State(
        "storm", "More than 20 new incidents in a minute",
        "One card in place of twenty.",
        "STORM 5 incidents are open: a table with a row for each.",
        _storm,
    ),
    State(
        "remedy-void", "Something stood in the way at the last moment",
        "Every obstacle is asked for again right before the order leaves.",
        "NOT DONE gpu-07 chat: the last heartbeat of the node is 2 min old.",
        remedy_states.void,
    ),
    State(
        "remedy-unknown", "Nobody knows what became of it",
        "The node took the order, or not; it is never sent again.",
        "OUTCOME UNKNOWN gpu-07 chat: reboot of the node, and what to do now.",
        remedy_states.outcome_unknown,
    ),
]  # fmt: skip
