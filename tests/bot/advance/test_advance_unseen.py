"""Nodes, windows and messages that cannot be seen: what is told, and what is not called free meanwhile."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance
from bot.fleet import Fleet
from bot.incident import CardState, Kind
from bot.ingest import Ingest
from bot.judge.candidate import CandidateRule
from bot.judge.presence import PresenceRule
from bot.judge.track import observed
from bot.judge.verdict import Because, Presence, Said
from tests.bot.build_incidents import finding, lost
from tests.bot.outward import become_free, everything, until
from tests.build import FIRST_WINDOW, heartbeat, observation


@pytest.mark.parametrize("kind", [Kind.NODE_LOST, Kind.READING_BROKEN, Kind.PROCESSES_HIDDEN, Kind.CLOCK_WRONG])
async def test_nothing_is_called_free_on_a_node_that_cannot_be_seen(store, fleet, ingest, advance, kind):
    await become_free(fleet, ingest, "gpu-01")
    await advance.found(finding(kind, kind=kind, subject="gpu-01"))
    await advance.refresh("gpu-01")
    card = next(one for one in advance.open_incidents() if one.kind is Kind.CANDIDATE)
    assert (card.gpus[0].state, card.gpus[0].because) == (CardState.NOT_JUDGED, Because.BLIND)
    assert advance.free_now([card]) == frozenset()


async def test_nothing_new_is_called_free_while_it_cannot_be_seen_and_again_afterwards(store, fleet, ingest, advance):
    clock_is_wrong = finding("clock_wrong", kind=Kind.CLOCK_WRONG, subject="gpu-01")
    await advance.found(clock_is_wrong)
    await become_free(fleet, ingest, "gpu-01")
    assert {one.kind for one in await everything(store)} == {Kind.CLOCK_WRONG}
    await advance.found(replace(clock_is_wrong, presence=Presence.ABSENT))
    await advance.refresh("gpu-01")
    assert {one.kind for one in advance.open_incidents()} == {Kind.CANDIDATE}


async def test_a_lost_nodes_runner_is_neither_stalled_nor_recovered(store, advance):
    await advance.found(finding(subject="gpu-01/chat"))
    await advance.found(lost("gpu-01"))
    await advance.found(finding(subject="gpu-01/chat", presence=Presence.ABSENT))
    await advance.found(finding(subject="gpu-01/embed"))
    runner = next(one for one in advance.open_incidents() if one.kind is Kind.RUNNER)
    assert (runner.finding.presence, len(await everything(store))) == (Presence.UNKNOWN, 2)


async def test_a_silent_node_is_told_and_its_return_too(store, settings):
    rule = PresenceRule(lost_after_seconds=0.1, after_start_seconds=0.05, heard_within_seconds=0.05)
    fleet = Fleet(CandidateRule(), presence_rule=rule)
    advance = Advance(store, fleet, settings)
    fleet.listens(True)
    fleet.heard(heartbeat(FIRST_WINDOW, node="gpu-01", sent_at=clock.now()))

    async def is_open():
        await advance.look_around()
        return advance.open_incidents()

    await until(is_open)
    (incident,) = advance.open_incidents()
    assert (incident.kind, incident.subject, incident.mentions) == (Kind.NODE_LOST, "gpu-01", ("U0BOB",))

    async def is_back():
        fleet.heard(heartbeat(FIRST_WINDOW, node="gpu-01", sent_at=clock.now()))
        return not await is_open()

    await until(is_back)


async def test_silence_counts_only_while_the_bot_itself_listens(store, settings):
    fleet = Fleet(CandidateRule(), presence_rule=PresenceRule(lost_after_seconds=0.0, after_start_seconds=0.0))
    advance = Advance(store, fleet, settings)
    fleet.heard(heartbeat(FIRST_WINDOW, node="gpu-01", sent_at=clock.now()))
    await advance.look_around()
    assert advance.open_incidents() == []
    fleet.listens(True)
    await advance.look_around()
    assert [one.kind for one in advance.open_incidents()] == [Kind.NODE_LOST]


@pytest.mark.parametrize(
    ("settles_seconds", "still"), [(300.0, Presence.PRESENT), (0.0, Presence.UNKNOWN)], ids=["at first", "later"]
)
async def test_a_bot_that_begins_leaves_what_the_one_before_it_saw_until_the_node_had_time_to_speak(
    store, settings, settles_seconds, still
):
    first = Fleet(CandidateRule())
    advance = Advance(store, first, settings)
    for _ in range(3):
        first.heard(heartbeat(FIRST_WINDOW, node="gpu-01", sent_at=clock.now() - timedelta(hours=1)))
    await advance.look_around()
    tracks = {"gpu-01": observed(None, observation(node="gpu-01"))}
    second = Fleet(CandidateRule(), tracks, PresenceRule(settles_seconds=settles_seconds))
    second.listens(True)
    again = Advance(store, second, settings)
    await again.start()
    await again.look_around()
    (incident,) = again.open_incidents()
    assert (incident.kind, incident.finding.presence) == (Kind.CLOCK_WRONG, still)


async def test_windows_that_wait_too_long_are_told_of_the_bot_itself(store, settings):
    fleet = Fleet(CandidateRule(), presence_rule=PresenceRule(backlog_after_seconds=0.0))
    advance = Advance(store, fleet, settings)
    fleet.stream_behind(Said("backlog.bus"))
    await advance.look_around()
    incident = next(one for one in advance.open_incidents() if one.kind is Kind.STREAM_BACKLOG)
    assert (incident.subject, incident.node) == ("bot", "")
    assert incident.mentions == ("U0ALICE", "U0BOB")
    fleet.stream_behind(None)
    await advance.look_around()
    assert Kind.STREAM_BACKLOG not in {one.kind for one in advance.open_incidents()}


async def test_cards_that_wait_for_slack_are_told_but_not_candidates(store, ingest, settings):
    fleet = Fleet(CandidateRule(), presence_rule=PresenceRule(backlog_after_seconds=0.0))
    advance = Advance(store, fleet, settings)
    await become_free(fleet, Ingest(store, fleet, advance), "gpu-01")
    await advance.look_around()
    assert {one.kind for one in advance.open_incidents()} == {Kind.CANDIDATE}
    await advance.found(finding())
    await advance.look_around()
    assert Kind.SLACK_BACKLOG in {one.kind for one in advance.open_incidents()}


async def test_nobody_misses_a_node_that_was_taken_out_of_the_fleet(store, settings):
    rule = PresenceRule(lost_after_seconds=0.0, after_start_seconds=0.0)
    members = {"gpu-01", "gpu-02"}
    fleet = Fleet(CandidateRule(), presence_rule=rule, is_member=lambda node: node in members)
    advance = Advance(store, fleet, settings)
    await become_free(fleet, Ingest(store, fleet, advance), "gpu-01")
    fleet.heard(heartbeat(FIRST_WINDOW, node="gpu-02", sent_at=clock.now()))
    fleet.listens(True)
    await advance.look_around()
    assert {(one.kind, one.subject) for one in advance.open_incidents()} == {
        (Kind.CANDIDATE, "gpu-01"), (Kind.NODE_LOST, "gpu-01"), (Kind.NODE_LOST, "gpu-02"),
    }  # fmt: skip
    members.clear()
    await advance.look_around()
    await advance.refresh_open()
    assert advance.open_incidents() == []
    assert {one.ending[0].key for one in await everything(store) if one.finding} == {"ending.node_removed"}


async def test_looking_around_writes_nothing_where_nothing_is_wrong(store, fleet, advance):
    for number in range(3):
        fleet.heard(heartbeat(FIRST_WINDOW, node=f"gpu-{number:02d}", sent_at=clock.now()))
    fleet.listens(True)
    await advance.look_around()
    assert await everything(store) == []
