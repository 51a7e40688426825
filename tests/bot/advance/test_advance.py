"""One incident on a real database: which people are told of it, and what keeps it quiet."""

import asyncio
from datetime import UTC, timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance, Outcome
from bot.fleet import Fleet
from bot.incident import Acknowledged, Kind, QuietWhy, Snoozed, Unsnoozed
from bot.ingest import Ingest
from bot.judge.verdict import Presence
from bot.maintenance import MaintenanceWindow
from bot.store import backlog, incidents, outbox
from bot.store.outbox import RowKind, Told
from tests.bot.advance_store import CLICK, assert_consistent, cards, lines, put_into_slack
from tests.bot.build_incidents import finding, lost
from tests.bot.outward import become_free, everything, rows_of_kind, until
from tests.build import FIRST_WINDOW, heartbeat
from tests.build_ticks import tick

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


async def test_people_are_told_again_also_where_the_clock_was_set_back_since(store, fleet, settings, monkeypatch):
    advance = Advance(store, fleet, replace(settings, again_after=timedelta(0)))
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(minutes=30))
    await advance.found(finding(subject="inf-01/chat"))
    monkeypatch.setattr(clock, "now", now)
    await put_into_slack(store)
    await advance.look_around()
    assert [key for key, _ in await lines(store)] == ["thread.nobody_yet"]


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


async def test_what_a_snooze_kept_quiet_is_not_said_to_hold_before_this_bot_could_see_it(store, fleet, advance, again):
    """It was over, and the problem too, while no bot worked."""
    await advance.found(finding(subject="inf-01/chat"))
    await put_into_slack(store)
    await snoozed(store, advance)
    await asyncio.sleep(0.3)
    just_begun = Fleet(fleet.rule)
    second = await again(just_begun)
    await second.look_around()
    assert second.open_incidents()[0].quiet is not None
    works = tick(1.0, has_moved=True, taken_at=clock.now() + timedelta(minutes=1))
    just_begun.heard(heartbeat(FIRST_WINDOW, [], node="inf-01", runners=[works], sent_at=clock.now()))
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


async def test_what_slack_refused_is_taken_back_and_what_people_may_have_seen_is_not(store, advance):
    for name in ("refused", "twice", "anew"):
        await advance.found(finding(subject=f"inf-01/{name}"))
    unseen, twice, anew = await rows_of_kind(store, RowKind.CARD)

    def work(transaction):
        for row in (unseen, twice, anew):
            assert outbox.mark_sending(transaction.connection, row, clock.now())
            outbox.mark_failed(transaction.connection, row.id, "too long", clock.now())
        outbox.mark_possibly_twice(transaction.connection, twice.id)
        outbox.post_anew(transaction.connection, anew.id, "key", "gone", clock.now())

    await store.write(work)
    await advance.snooze_node("inf-01", clock.now() + timedelta(hours=1), CLICK)
    assert await cards(store) == {twice.incident_id, anew.incident_id}


async def test_a_card_that_was_taken_back_is_not_sent_in_the_name_of_the_next_one(store, advance):
    """SQLite gives the number of a row that is gone to the next one."""
    await advance.found(finding(subject="inf-01/chat"))
    (before,) = await rows_of_kind(store, RowKind.CARD)
    await advance.snooze_node("inf-01", clock.now() + timedelta(hours=1), CLICK)
    await advance.found(finding(subject="inf-02/chat"))
    (after,) = await rows_of_kind(store, RowKind.CARD)
    assert not await store.write(lambda tx: outbox.mark_sending(tx.connection, before, clock.now()))
    assert await store.write(lambda tx: outbox.mark_sending(tx.connection, after, clock.now()))


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
