"""Many incidents at once on a real database: on whose card each of them stands, and that groups count right."""

import random
from datetime import timedelta

import pytest
from msgspec.structs import replace

from agent.observe import grid_of
from bot import clock
from bot.incident import FLEET_SUBJECT, Acknowledged, Kind, Snoozed
from bot.judge.verdict import Presence
from bot.store.outbox import RowKind
from tests.bot.advance_store import CLICK, assert_consistent, cards, put_into_slack
from tests.bot.build_incidents import back, finding, lost
from tests.bot.outward import become_free, rows_of_kind
from tests.build import FIRST_WINDOW, heartbeat
from wire.messages import Verdict


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
