"""Builders of findings, and strategies for any event that can happen to an incident."""

from datetime import timedelta

from hypothesis import strategies as st
from msgspec.structs import replace

from bot.groups import Group
from bot.incident import (
    Acknowledged,
    Finding,
    Folded,
    GpuFacts,
    Judged,
    Kind,
    Members,
    NotAStall,
    Opening,
    Quiet,
    QuietWhy,
    Said,
    SaidInUse,
    Snoozed,
    TimePassed,
    Unsnoozed,
)
from bot.judge.verdict import Because, Presence, Standing
from tests.build import START, gpu_uuid

MINUTE = timedelta(minutes=1)
GROUPS = [
    Group("inference", ["inf-*"], on_call=["U0ALICE"], second=["U0CAROL"]),
    Group("rest", ["*"], on_call=["U0BOB"]),
]


def finding(what="stalled", presence=Presence.PRESENT, **changes):
    """A runner's verdict, or with `kind` something else."""
    values = {
        "kind": Kind.RUNNER,
        "subject": "gpu-07/chat",
        "presence": presence,
        "what": what,
        "since": START,
        "title": Said("title.node_lost", seconds={"length": 600.0}),
        "lines": (Said("evidence.silent", instants={"at": START}),),
    }
    return Finding(**{**values, **changes})


def lost(node):
    return finding(Kind.NODE_LOST, kind=Kind.NODE_LOST, subject=node)


def back(node):
    return replace(lost(node), presence=Presence.ABSENT)


def quiet(why=QuietWhy.MAINTENANCE, until=START + 60 * MINUTE, up_to=99):
    return Quiet(why, up_to, until)


def facts(index, presence):
    because = {Presence.PRESENT: Because.CONFIRMED, Presence.ABSENT: Because.SAMPLE_HELD}.get(
        presence, Because.WINDOW_NOT_JUDGED
    )
    standing = Standing(presence, because, 3)
    return GpuFacts(gpu_uuid(index), index, "H100", standing, START, 300.0, 9, (), None)


PRESENCES = st.sampled_from(Presence)
USERS = st.sampled_from(["U1", "U2"])
QUIETS = st.none() | st.builds(quiet, st.sampled_from(QuietWhy), st.just(START + 30 * MINUTE), st.integers(0, 9))
OPENINGS = st.builds(Opening, QUIETS, st.none() | st.just(3))
PEOPLE = st.one_of(
    st.builds(Acknowledged, USERS),
    st.builds(Snoozed, USERS, st.integers(-5, 90).map(lambda minutes: START + minutes * MINUTE)),
    st.builds(Unsnoozed, USERS),
    st.builds(SaidInUse, USERS),
    st.builds(NotAStall, USERS),
    st.builds(TimePassed, st.none() | st.just(START), QUIETS),
    st.builds(Folded, st.just(3)),
)
JUDGED = st.builds(
    lambda presences, opening: Judged(
        "gpu-07", {gpu_uuid(i): facts(i, one) for i, one in enumerate(presences)}, 3, opening
    ),
    st.lists(PRESENCES, max_size=3),
    OPENINGS,
)
FINDINGS = st.builds(
    lambda what, presence, opening: finding(what, presence, opening=opening),
    st.sampled_from(["stalled", "uncertain", "degraded", "down"]),
    PRESENCES,
    OPENINGS,
)
MEMBERS = st.builds(
    lambda total, closed, opening: Members(Kind.MANY_BLIND, total, max(total - closed, 0), opening),
    st.integers(0, 5),
    st.integers(0, 5),
    OPENINGS,
)
# A sequence is about one subject, so it holds judgements of one kind, and whatever people and time do.
SEQUENCES = st.one_of(
    st.lists(st.tuples(st.integers(0, 20), judge | PEOPLE), max_size=25) for judge in (JUDGED, FINDINGS, MEMBERS)
)
