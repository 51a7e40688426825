"""The states of cards of what cannot be seen, and of what is broken."""

from msgspec.structs import replace

from bot.incident import Finding, Incident, Kind, Said
from bot.judge.verdict import Presence
from bot.render.message import Message
from tests.bot.build_cards import NOW
from tests.bot.build_states import ALICE, MINUTE, NODE, State, drawn
from tests.bot.runner_states import case
from tests.build import gpu_uuid


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
    return drawn(_finding(Kind.NODE_LOST, _SILENT, last_known=_KNOWN, mentions=(ALICE,)))


def _clock_wrong() -> Message:
    line = Said("evidence.clock_behind", seconds={"length": 240.0})
    return drawn(_finding(Kind.CLOCK_WRONG, line))


def _gpu_sick() -> Message:
    line = Said("evidence.gpu_sick", texts={"index": "3", "uuid": gpu_uuid(3), "action": "GPU reset"})
    return drawn(_finding(Kind.GPU_SICK, line))


def _many_blind() -> Message:
    members = [replace(_finding(Kind.NODE_LOST, _SILENT), subject=f"gpu-{number:02}") for number in range(5)]
    found = Incident(id=8, kind=Kind.MANY_BLIND, subject="fleet", opened_at=NOW, members=5, members_open=5)
    return drawn(found, members=members)


def _reading_broken() -> Message:
    line = Said("reason.sample_error", {"detail": "nvmlInit: driver and library versions differ"})
    found = _finding(Kind.READING_BROKEN, line, title={"seconds": {"length": 600.0}})
    return drawn(replace(found, finding=replace(found.finding, since=NOW - 10 * MINUTE)))


def _processes_hidden() -> Message:
    line = Said("reason.process_view", {"detail": "the agent is in a PID namespace of its own"})
    return drawn(_finding(Kind.PROCESSES_HIDDEN, line, title={}))


def _two_agents() -> Message:
    return drawn(_finding(Kind.TWO_AGENTS, Said("evidence.two_agents", {"count": "2"}), title={}))


def _gpu_gone() -> Message:
    line = Said("reason.gpu_missing", {"detail": gpu_uuid(3)})
    return drawn(_finding(Kind.GPU_GONE, line, title={"texts": {"count": "1"}}))


def _stream_backlog() -> Message:
    found = _finding(Kind.STREAM_BACKLOG, Said("backlog.bus"))
    assert found.finding is not None
    return drawn(replace(found, subject="bot", finding=replace(found.finding, subject="bot")))


UNSEEN = [
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
        "many-blind", "Many nodes at once cannot be seen",
        "At least three and at least a fifth of the fleet: one card in place of one for each.",
        "BLIND 5 nodes cannot be seen: a table with a row for each node.",
        _many_blind,
    ),
    State(
        "runner-blind", "A runner cannot be read",
        "What cannot be read is never called well, and never called stalled.",
        "BLIND gpu-07 chat: nothing could be read for 10 min.",
        lambda: case("L33"),
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
        "backlog", "The bot itself is late",
        "It says so before anybody believes an old word of it.",
        "BLIND this bot: windows are not read in time for 4 min, the bus cannot be reached.",
        _stream_backlog,
    ),
    State(
        "gpu-sick", "A GPU asks for a recovery action",
        "The driver's own word; nothing is done by itself.",
        "GPU SICK gpu-07: GPU 3 asks for a recovery action, a GPU reset.",
        _gpu_sick,
    ),
    State(
        "gpu-gone", "A GPU is gone",
        "The node had it before, and its driver does not show it any more.",
        "GPU GONE gpu-07: 1 missing, with its UUID.",
        _gpu_gone,
    ),
]  # fmt: skip
