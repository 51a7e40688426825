"""Incidents of many kinds on a real database: who is told, on which card, and what is kept quiet."""

import asyncio
import random
from datetime import UTC, timedelta

import pytest
from msgspec.structs import replace

from agent.observe import grid_of
from bot import clock
from bot.advance import Advance, AdvanceSettings, Click, Outcome
from bot.fleet import Fleet
from bot.incident import FLEET_SUBJECT, Acknowledged, Kind, QuietWhy, Snoozed, Unsnoozed
from bot.ingest import Ingest
from bot.judge.verdict import Presence
from bot.maintenance import MaintenanceWindow
from bot.store import backlog, incidents, outbox
from bot.store.outbox import RowKind, Told
from tests.bot.build_incidents import GROUPS, back, finding, lost
from tests.bot.outward import become_free, everything, rows_of_kind, until
from tests.build import FIRST_WINDOW, heartbeat
from wire.messages import Verdict

CLICK = Click("", "test", "U0ALICE", "T1")


@pytest.fixture
def settings():
    return AdvanceSettings(timedelta(0), timedelta(0), shadow=False, groups=GROUPS)


@pytest.fixture
def again(store, fleet, settings):
    """A second bot on the same database, as after a restart."""

    async def start(**changes):
        advance = Advance(store, Fleet(fleet.rule, fleet.tracks), replace(settings, **changes))
        await advance.start()
        return advance

    return start


async def cards(store):
    """The ids of the incidents that have a card of their own."""
    return {row.incident_id for row in await rows_of_kind(store, RowKind.CARD)}


async def lines(store):
    return [(row.line_key, row.line_values) for row in await rows_of_kind(store, RowKind.THREAD)]


async def put_into_slack(store):
    """As if every card that waits had been posted by now."""

    def work(transaction):
        connection, now = transaction.connection, clock.now()
        for row in outbox.due(connection, now + timedelta(hours=1), limit=1000):
            if row.kind is RowKind.CARD and row.ts is None:
                outbox.mark_sending(connection, row.id, now)
                sent = outbox.Delivered("C1", f"{now.timestamp():.6f}", 1, 0, now)
                outbox.mark_sent(connection, row.id, sent, now)

    await store.write(work)


# --- one incident, and its people -----------------------------------------------------------------------------------


async def test_a_finding_opens_once_names_its_people_and_closes(store, advance):
    await advance.found(finding(subject="inf-01/chat"))
    await advance.found(finding(subject="inf-01/chat"))
    (incident,) = await everything(store)
    assert (incident.mentions, await cards(store)) == (("U0ALICE",), {incident.id})
    await advance.found(finding(subject="inf-01/chat", presence=Presence.ABSENT))
    assert advance.open_incidents() == []
    assert (await everything(store))[0].closed_at is not None


async def test_unknown_and_absent_write_nothing_where_nothing_is_open(store, advance):
    for presence in (Presence.ABSENT, Presence.UNKNOWN):
        await advance.found(finding(presence=presence))
    assert await everything(store) == []


async def test_different_subjects_and_kinds_are_different_problems(store, advance):
    for one in (
        finding(subject="a/chat"),
        finding(subject="a/embed"),
        lost("b"),
        finding("gpu_gone", kind=Kind.GPU_GONE, subject="c"),
    ):
        await advance.found(one)
    assert len(await everything(store)) == 4


async def test_nobody_acknowledges_so_the_same_people_and_then_the_second_are_told(store, fleet, settings):
    at_once = replace(settings, again_after=timedelta(0), second_after=timedelta(0))
    advance = Advance(store, fleet, at_once)
    await advance.found(finding(subject="inf-01/chat"))
    await advance.look_around()
    assert await lines(store) == []  # the card is not in Slack yet, and the mention goes with it
    await put_into_slack(store)
    for _ in range(3):
        await advance.look_around()
    assert await lines(store) == [
        ("thread.nobody_yet", {"mention": "U0ALICE"}),
        ("thread.nobody_still", {"mention": "U0CAROL"}),
    ]
    assert (await everything(store))[0].mentions == ("U0ALICE", "U0CAROL")


async def test_an_acknowledgement_by_number_ends_it(store, fleet, settings):
    advance = Advance(store, fleet, replace(settings, again_after=timedelta(0)))
    await advance.found(finding(subject="inf-01/chat"))
    await put_into_slack(store)
    (incident,) = await everything(store)
    clicked = await advance.command(incident.id, CLICK, Acknowledged("U0ALICE"))
    assert clicked.outcome is Outcome.DONE
    assert (await advance.command(999, CLICK, Acknowledged("U0ALICE"))).outcome is Outcome.UNKNOWN_BUTTON
    await advance.look_around()
    assert [key for key, _ in await lines(store)] == ["thread.acknowledged"]


# --- quiet ----------------------------------------------------------------------------------------------------------


async def snoozed(store, advance, seconds=0.2):
    (incident,) = await everything(store)
    token = await store.write(lambda tx: incidents.button_token(tx.connection, incident, clock.now()))
    until_then = clock.now() + timedelta(seconds=seconds)
    return await advance.snooze(replace(CLICK, token=token), until_then, "known")


async def test_a_snooze_runs_out_also_over_a_restart_and_what_still_holds_is_said_again(store, advance, again):
    await advance.found(finding(subject="inf-01/chat"))
    await put_into_slack(store)
    assert (await snoozed(store, advance)).outcome is Outcome.DONE
    second = await again()

    async def is_over():
        await second.look_around()
        return second.open_incidents()[0].quiet is None

    await until(is_over)
    assert [key for key, _ in await lines(store)] == ["thread.snoozed", "thread.still_there"]


async def test_a_snooze_that_was_over_while_the_bot_was_away_and_a_problem_that_is_over_say_nothing(
    store, advance, again
):
    await advance.found(finding(subject="inf-01/chat"))
    await put_into_slack(store)
    await snoozed(store, advance, 1.0)
    await asyncio.sleep(1.0)
    second = await again()
    await second.found(finding(subject="inf-01/chat", presence=Presence.ABSENT))
    await second.look_around()
    assert [key for key, _ in await lines(store)] == ["thread.snoozed", "thread.recovered"]


async def test_a_snoozed_node_keeps_what_opens_quiet_and_lets_worse_through(store, fleet, ingest, advance, again):
    await become_free(fleet, ingest, "inf-01")
    await advance.snooze_node("inf-01", clock.now() + timedelta(hours=1), CLICK, "my test")
    (candidate,) = advance.open_incidents()
    assert (candidate.quiet.why, candidate.quiet.by) == (QuietWhy.NODE_SNOOZED, "U0ALICE")
    await advance.found(finding(subject="inf-01/chat"))
    stall = (await everything(store))[0]
    assert (stall.quiet, stall.id in await cards(store)) == (None, True)
    second = await again()
    assert second.snoozed_node("inf-01").reason == "my test"
    assert await second.unsnooze_node("inf-01", CLICK)
    assert not await second.unsnooze_node("inf-01", CLICK)
    assert [one.quiet for one in second.open_incidents()] == [None, None]


async def test_a_node_that_is_snoozed_while_nothing_is_open_is_quiet_altogether(store, advance):
    await advance.snooze_node("inf-01", clock.now() + timedelta(hours=1), CLICK)
    await advance.found(finding(subject="inf-01/chat"))
    await advance.found(lost("inf-02"))
    quiet = {one.subject: one.quiet is not None for one in advance.open_incidents()}
    assert quiet == {"inf-01/chat": True, "inf-02": False}
    assert len(await cards(store)) == 1


@pytest.fixture
async def gathering(store, fleet, settings):
    """A bot whose first card of a free GPU still waits for others."""
    slow = Advance(store, fleet, replace(settings, gather=timedelta(minutes=1)))
    await become_free(fleet, Ingest(store, fleet, slow), "inf-01")
    (candidate,) = slow.open_incidents()
    assert await cards(store) == {candidate.id}
    return slow


@pytest.mark.parametrize("is_of_node", [True, False])
async def test_a_card_that_is_snoozed_before_it_left_waits_for_the_end_of_the_snooze(store, gathering, is_of_node):
    (candidate,) = gathering.open_incidents()
    soon = clock.now() + timedelta(hours=1)
    if is_of_node:
        await gathering.snooze_node("inf-01", soon, CLICK, "new fans")
    else:
        assert (await gathering.command(candidate.id, CLICK, Snoozed("U0ALICE", soon))).outcome is Outcome.DONE
    assert await cards(store) == set()
    await assert_consistent(store, gathering)
    if is_of_node:
        await gathering.unsnooze_node("inf-01", CLICK)
    else:
        await gathering.command(candidate.id, CLICK, Unsnoozed("U0ALICE"))
    assert await cards(store) == {candidate.id}
    assert gathering.open_incidents()[0].said_at is not None
    assert await lines(store) == []


async def test_a_card_that_is_snoozed_before_it_left_and_over_before_the_snooze_is_never_said(store, advance):
    await advance.found(finding(subject="inf-01/chat"))
    (stall,) = advance.open_incidents()
    await advance.command(stall.id, CLICK, Snoozed("U0ALICE", clock.now() + timedelta(hours=1)))
    await advance.found(finding(subject="inf-01/chat", presence=Presence.ABSENT))
    assert advance.open_incidents() == []
    assert await cards(store) == set()


async def test_a_card_that_people_heard_of_by_the_second_path_stays_although_it_is_snoozed(store, advance):
    await advance.found(finding(subject="inf-01/chat"))
    (row,) = await rows_of_kind(store, RowKind.CARD)
    await store.write(lambda tx: backlog.mark_told(tx.connection, row.id, Told.OPENED))
    await advance.command(row.incident_id, CLICK, Snoozed("U0ALICE", clock.now() + timedelta(hours=1)))
    assert await cards(store) == {row.incident_id}


async def test_maintenance_is_recorded_and_what_still_holds_is_said_when_it_ends(store, advance, again):
    until_then = clock.now() + timedelta(hours=1)
    window = MaintenanceWindow(groups=("inference",), until=until_then.replace(tzinfo=None), reason="new driver")
    during = await again(calendar=[window], zone=UTC)
    await during.found(finding(subject="inf-01/chat"))
    await during.found(finding(subject="gpu-01/chat"))
    rest, inference = await everything(store)
    assert (inference.quiet.why, inference.quiet.reason, rest.quiet) == (QuietWhy.MAINTENANCE, "new driver", None)
    assert await cards(store) == {rest.id}
    after = await again()
    await after.look_around()
    assert await cards(store) == {rest.id, inference.id}
    assert (await everything(store))[1].mentions == ("U0ALICE",)


async def test_many_that_a_maintenance_kept_quiet_are_said_on_few_cards_when_it_ends(store, fleet, settings, again):
    window = MaintenanceWindow(("*",), until=(clock.now() + timedelta(hours=1)).replace(tzinfo=None))
    during = Advance(store, fleet, replace(settings, calendar=[window]))
    for number in range(12):
        await become_free(fleet, Ingest(store, fleet, during), f"gpu-{number:02d}")
    assert (len(during.open_incidents()), await cards(store)) == (12, set())
    after = await again()
    await after.look_around()
    assert len(await cards(store)) == 6
    assert all(one.quiet is None for one in after.open_incidents())


async def test_what_the_config_does_not_post_is_recorded_only(store, advance):
    await advance.found(finding("degraded"))
    await advance.look_around()
    (incident,) = await everything(store)
    assert (incident.quiet.why, await cards(store)) == (QuietWhy.NOT_POSTED, set())
    await advance.found(finding("stalled"))
    assert await cards(store) == {incident.id}


# --- many at once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [40])
async def test_forty_nodes_with_their_real_offsets_need_six_cards_at_most(store, fleet, ingest, advance, count):
    nodes = [f"gpu-{number:02d}" for number in range(1, count + 1)]
    window = timedelta(minutes=5)
    for node in sorted(nodes, key=lambda one: grid_of(one, window, timedelta(seconds=10)).offset, reverse=True):
        await become_free(fleet, ingest, node)
    with_cards = await cards(store)
    assert len(with_cards) == 6
    (fleet_card,) = [one for one in advance.open_incidents() if one.kind is Kind.FLEET]
    assert (fleet_card.members, fleet_card.members_open, fleet_card.mentions) == (35, 35, ())
    members = await advance.members(fleet_card)
    assert len({one.node for one in members} | {one.node for one in advance.open_incidents() if one.node}) == count
    assert len(advance.free_now(members)) == 1  # every node's GPU 0 has the same UUID in this test


async def test_a_fleet_card_is_over_when_its_last_node_is_taken(store, fleet, ingest, advance):
    for number in range(7):
        await become_free(fleet, ingest, f"gpu-{number:02d}")
    for number in (5, 6):
        fleet.heard(heartbeat(FIRST_WINDOW + 2, [Verdict.HELD], node=f"gpu-{number:02d}", sent_at=clock.now()))
        await advance.refresh(f"gpu-{number:02d}")
        groups = [one for one in advance.open_incidents() if one.kind is Kind.FLEET]
        assert [one.members_open for one in groups] == ([1] if number == 5 else [])


async def test_many_nodes_that_are_lost_at_once_stand_on_one_card(store, fleet, ingest, advance):
    for number in range(10):
        fleet.heard(heartbeat(FIRST_WINDOW, node=f"gpu-{number:02d}", sent_at=clock.now()))
    for number in range(4):
        await advance.found(lost(f"gpu-{number:02d}"))
    (many,) = [one for one in advance.open_incidents() if one.kind is Kind.MANY_BLIND]
    assert await cards(store) == {many.id}
    assert (many.members_open, many.mentions) == (4, ("U0BOB",))
    for number in range(4):
        await advance.found(back(f"gpu-{number:02d}"))
    assert advance.open_incidents() == []
    (row,) = await rows_of_kind(store, RowKind.CARD)
    assert row.incident_id == many.id


async def test_two_nodes_or_a_small_share_of_the_fleet_have_cards_of_their_own(store, fleet, advance):
    for number in range(20):
        fleet.heard(heartbeat(FIRST_WINDOW, node=f"gpu-{number:02d}", sent_at=clock.now()))
    for number in range(3):
        await advance.found(lost(f"gpu-{number:02d}"))
    assert len(await cards(store)) == 3
    assert {one.kind for one in advance.open_incidents()} == {Kind.NODE_LOST}


async def test_a_card_that_people_have_already_stays_when_others_join_one(store, fleet, advance):
    for number in range(5):
        fleet.heard(heartbeat(FIRST_WINDOW, node=f"inf-{number:02d}", sent_at=clock.now()))
    await advance.found(lost("inf-00"))
    await put_into_slack(store)
    for node in ("inf-01", "inf-02", "inf-03"):
        await advance.found(lost(node))
    assert len(await cards(store)) == 2
    (many,) = [one for one in advance.open_incidents() if one.kind is Kind.MANY_BLIND]
    assert many.members_open == 3


async def test_more_than_twenty_new_incidents_in_a_minute_are_one_storm(store, advance):
    for number in range(19):
        await advance.found(finding(subject=f"gpu-{number:02d}/chat"))
    await put_into_slack(store)
    for number in range(19, 30):
        await advance.found(finding(subject=f"inf-{number:02d}/chat"))
    (storm,) = [one for one in advance.open_incidents() if one.kind is Kind.STORM]
    assert (storm.subject, storm.members_open) == (FLEET_SUBJECT, 11)
    assert len(await cards(store)) == 19 + 1
    assert storm.mentions == ("U0ALICE",)


async def test_candidates_are_no_storm(store, fleet, ingest, advance):
    for number in range(25):
        await become_free(fleet, ingest, f"gpu-{number:02d}")
    assert {one.kind for one in advance.open_incidents()} == {Kind.CANDIDATE, Kind.FLEET}


async def test_groups_go_on_over_a_restart(store, fleet, ingest, advance, again):
    for number in range(6):
        await become_free(fleet, ingest, f"gpu-{number:02d}")
    second = await again()
    assert [one.kind for one in second.open_incidents()].count(Kind.FLEET) == 1
    await second.look_around()
    assert len(await cards(store)) == 6


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_there_is_one_open_incident_for_a_subject_and_groups_count_right(
    store, fleet, again, seed
):
    chance = random.Random(seed)
    advance = await again()
    for number in range(6):
        fleet.heard(heartbeat(FIRST_WINDOW, node=f"gpu-{number}", sent_at=clock.now()))
    for _ in range(120):
        await anything(chance, advance)
        if chance.random() < 0.03:
            advance = await again()
        await assert_consistent(store, advance)


async def anything(chance, advance):
    node, presence = f"gpu-{chance.randrange(6)}", chance.choice(list(Presence))
    found = [
        replace(lost(node), presence=presence),
        finding("clock_wrong", presence, kind=Kind.CLOCK_WRONG, subject=node),
        finding(chance.choice(["stalled", "uncertain", "degraded"]), presence, subject=f"{node}/chat"),
    ]
    soon = clock.now() + timedelta(seconds=chance.choice([0.01, 60]))
    match chance.randrange(6), advance.open_incidents():
        case 0, [*some] if some:
            await advance.command(
                chance.choice(some).id, CLICK, chance.choice([Acknowledged("U1"), Snoozed("U1", soon)])
            )
        case 1, _:
            await advance.snooze_node(node, soon, CLICK)
        case 2, _:
            await advance.unsnooze_node(node, CLICK)
        case _:
            await advance.found(chance.choice(found))


async def assert_consistent(store, advance):
    rows = await everything(store)
    still_open = [one for one in rows if one.closed_at is None]
    assert len({(one.kind, one.subject) for one in still_open}) == len(still_open)
    assert {one.id: one for one in still_open} == {one.id: one for one in advance.open_incidents()}
    for group in (one for one in still_open if one.kind is Kind.MANY_BLIND):
        members = [one for one in rows if one.shown_on == group.id]
        assert (group.members, group.members_open) == (len(members), sum(one.closed_at is None for one in members))
    with_cards = await cards(store)
    assert {one.id for one in still_open if one.said_at and one.shown_on is None} <= with_cards
    assert not with_cards & {one.id for one in rows if one.shown_on is not None or (one.quiet and not one.said_at)}
