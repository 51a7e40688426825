"""Runners as heartbeats tell of them: to an incident on a real database, and what silence and restarts do to it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance, AdvanceSettings, Click
from bot.config import BotConfig, Group, Stall
from bot.fleet import Fleet
from bot.incident import Kind, QuietWhy
from bot.judge.stall import StallSettings
from bot.judge.verdict import Presence
from bot.runners import Runners
from bot.store import incidents
from bot.store.outbox import RowKind
from bot.wanted import advance_settings, stall_settings
from tests.bot.outward import rows_of_kind
from tests.build import heartbeat
from tests.build_ticks import hung, tick
from wire.ticks import ApiState

NODE = "gpu-01"
CLICK = Click("", "test", "U0ALICE", "T1")


@pytest.fixture
def settings():
    on_call = Group("all", ["*"], on_call=["U0ALICE"], second=["U0BOB"])
    return AdvanceSettings(timedelta(0), timedelta(0), shadow=False, groups=[on_call])


@pytest.fixture
def hear(fleet, advance):
    """Heartbeats with these ticks, one after the other, each followed by a look around."""

    async def hear(*ticks, by=None):
        heard, judging = by or (fleet, advance)
        for one in ticks:
            heard.heard(heartbeat(None, [], node=NODE, runners=[one], sent_at=clock.now()))
            await judging.look_around()

    return hear


def stall(at_minutes=0.0):
    return hung(at_minutes=at_minutes, minutes=20 + at_minutes)


async def everything(store):
    found = await store.read(lambda connection: incidents.recent(connection, 100))
    return [one for one in found if one.kind is Kind.RUNNER]


def test_the_defaults_of_the_config_are_those_of_the_judge_and_of_the_posts():
    assert stall_settings(BotConfig()) == StallSettings()
    assert advance_settings(BotConfig()).not_posted == AdvanceSettings(timedelta(0), timedelta(0), False).not_posted


async def test_the_second_heartbeat_opens_one_incident_that_wakes_people(store, hear):
    await hear(stall(0))
    assert await everything(store) == []
    await hear(stall(0.5), stall(1), stall(1.5))
    (incident,) = await everything(store)
    assert (incident.subject, incident.what, incident.mentions) == ("gpu-01/chat", "stalled", ("U0ALICE",))
    assert len(await rows_of_kind(store, RowKind.CARD)) == 1


async def test_the_same_tick_in_two_heartbeats_is_one_observation(store, hear):
    await hear(stall(0), stall(0), replace(stall(0), age_seconds=9.0))
    assert await everything(store) == []


async def test_a_tick_that_is_old_already_when_it_comes_says_nothing(store, hear):
    await hear(stall(0), replace(stall(0.5), age_seconds=91.0))
    assert await everything(store) == []


async def test_one_runner_has_one_incident_whatever_becomes_of_it(store, hear):
    dead = [hung(at_minutes=m, minutes=30, api=ApiState.REFUSED, api_dead_seconds=240 + 60 * m) for m in (1, 1.5, 2, 3)]
    await hear(stall(0), stall(0.5), *dead)
    (incident,) = await everything(store)
    assert incident.what == "down"
    await hear(tick(at_minutes=4, has_moved=True, api=ApiState.OK))
    (incident,) = await everything(store)
    assert incident.closed_at
    assert incident.ending[0].key == "ending.moved"
    await hear(stall(30), stall(30.5))
    assert len(await everything(store)) == 2


async def test_what_is_not_posted_is_recorded_and_shown_to_nobody(store, hear):
    slow = [tick(at_minutes=m, slow_seconds=1300 + 60 * m, has_moved=True) for m in (0, 0.5)]
    await hear(*slow)
    (incident,) = await everything(store)
    assert (incident.what, incident.quiet.why) == ("degraded", QuietWhy.NOT_POSTED)
    assert await rows_of_kind(store, RowKind.CARD) == []


async def test_the_config_says_what_is_posted(store, fleet, hear):
    advance = Advance(store, fleet, advance_settings(BotConfig(stall=Stall(post=["degraded"]))))
    slow = [tick(at_minutes=m, slow_seconds=1300 + 60 * m, has_moved=True) for m in (0, 0.5)]
    await hear(*slow, by=(fleet, advance))
    assert len(await rows_of_kind(store, RowKind.CARD)) == 1


async def test_a_bot_that_starts_again_goes_on_with_the_same_incident(store, advance, settings, hear):
    await hear(stall(0), stall(0.5))
    fleet = Fleet(advance._fleet.rule)
    again = Advance(store, fleet, settings)
    await again.start()
    await hear(stall(1), stall(1.5), stall(2), by=(fleet, again))
    (incident,) = await everything(store)
    assert incident.closed_at is None
    assert len(await rows_of_kind(store, RowKind.CARD)) == 1
    await hear(tick(at_minutes=3, has_moved=True), by=(fleet, again))
    assert (await everything(store))[0].closed_at is not None


async def test_not_a_stall_is_recorded_with_its_reason_and_lasts_until_it_works(store, advance, hear):
    await hear(stall(0), stall(0.5))
    (incident,) = await everything(store)
    token = await store.write(
        lambda transaction: incidents.button_token(transaction.connection, incident, incident.opened_at)
    )
    await advance.not_a_stall(replace(CLICK, token=token), "a long batch")
    await hear(stall(1), stall(1.5))
    (incident,) = await everything(store)
    assert (incident.disputed_by, incident.disputed_why, incident.closed_at) == ("U0ALICE", "a long batch", None)
    await hear(tick(at_minutes=3, has_moved=True))
    assert (await everything(store))[0].closed_at is not None


# --- silence --------------------------------------------------------------------------------------------------------


@pytest.fixture
def runners():
    """Runners of one node, of which one stands on an open incident."""
    return Runners()


@pytest.fixture
async def opened(store, advance, fleet, hear):
    await hear(stall(0), stall(0.5))
    (incident,) = await everything(store)
    return incident


def said(runners, now_seconds, silent_seconds=0.0):
    return [(one.presence, one.what) for one in runners.findings(NODE, now_seconds, silent_seconds)]


async def test_while_its_node_is_silent_a_stall_is_neither_held_nor_over(runners, opened):
    runners.note(opened)
    runners.heard(heartbeat(None, [], node=NODE, runners=[tick(at_minutes=1, has_moved=True)]), 100.0)
    assert said(runners, 101.0, silent_seconds=181.0) == [(Presence.UNKNOWN, "stalled")]
    assert said(runners, 101.0, silent_seconds=30.0) == [(Presence.ABSENT, "stalled")]


async def test_after_the_bots_own_start_an_open_stall_waits_for_the_node(runners, opened):
    runners.note(opened)
    assert said(runners, 60.0, silent_seconds=60.0) == []
    assert said(runners, 200.0, silent_seconds=200.0) == [(Presence.UNKNOWN, "stalled")]


async def test_a_runner_that_its_node_reads_no_more_is_first_not_seen_and_then_not_watched(runners, opened):
    runners.note(opened)
    bare = heartbeat(None, [], node=NODE)
    runners.heard(bare, 1000.0)
    assert said(runners, 1080.0) == []
    assert said(runners, 1100.0) == [(Presence.UNKNOWN, "stalled")]
    runners.heard(bare, 1590.0)
    assert said(runners, 1601.0, silent_seconds=200.0) == [(Presence.UNKNOWN, "stalled")]
    (finding,) = runners.findings(NODE, 1601.0, 11.0)
    assert (finding.presence, finding.lines[0].key) == (Presence.ABSENT, "ending.not_watched")


async def test_without_an_open_incident_silence_says_nothing(runners):
    runners.heard(heartbeat(None, [], node=NODE, runners=[stall(0)]), 0.0)
    runners.heard(heartbeat(None, [], node=NODE, runners=[stall(0.5)]), 30.0)
    assert said(runners, 31.0) == [(Presence.PRESENT, "stalled")]
    assert said(runners, 91.0, silent_seconds=61.0) == []  # nothing is opened by what is not fresh
    assert said(runners, 300.0, silent_seconds=270.0) == []
