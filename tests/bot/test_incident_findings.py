"""The life of a card about one finding: opens, turns, is kept quiet, is said again, is over."""

import pytest
from hypothesis import given

from bot.incident import (
    Acknowledged,
    Finding,
    Folded,
    Judged,
    Kind,
    Members,
    Mention,
    NotAStall,
    Opening,
    QuietWhy,
    ShowCard,
    Snoozed,
    ThreadLine,
    TimePassed,
    Unsnoozed,
    Who,
    step,
)
from bot.judge.verdict import Presence, Said
from tests.bot.build_incidents import MINUTE, SEQUENCES, finding, quiet
from tests.build import START

LATER = START + MINUTE


def told(effects):
    return [effect.key if isinstance(effect, ThreadLine | Mention) else "card" for effect in effects]


@pytest.fixture
def stall():
    return step(None, finding(), START)[0]


@pytest.mark.parametrize("presence", [Presence.ABSENT, Presence.UNKNOWN])
def test_only_what_is_present_opens(presence):
    assert step(None, finding(presence=presence), START) == (None, ())


def test_a_new_stall_shows_a_card_and_mentions_who_is_on_call():
    incident, effects = step(None, finding(), START)
    assert effects == (ShowCard(), Mention(Who.ON_CALL, "thread.opened"))
    assert (incident.said_at, incident.node, incident.runner, incident.what) == (START, "gpu-07", "chat", "stalled")


@pytest.mark.parametrize("what", ["degraded", "runaway", "work_stuck"])
def test_what_wakes_nobody_mentions_nobody(what):
    incident, effects = step(None, finding(what), START)
    assert effects == (ShowCard(),)
    late = START + 60 * MINUTE
    assert step(incident, TimePassed(START), late) == (incident, ())


def test_absent_closes_and_says_that_it_recovered(stall):
    incident, effects = step(stall, finding(presence=Presence.ABSENT, lines=(Said("known.runner"),)), LATER)
    assert (incident.closed_at, told(effects)) == (LATER, ["card", "thread.recovered"])
    assert incident.ending == (Said("known.runner"),)


def test_unknown_neither_opens_nor_closes_and_is_shown_once(stall):
    unseen, effects = step(stall, finding(presence=Presence.UNKNOWN), LATER)
    assert (unseen.closed_at, unseen.finding.presence, told(effects)) == (
        None, Presence.UNKNOWN, ["card", "thread.not_seen"],
    )  # fmt: skip
    assert step(unseen, finding(presence=Presence.UNKNOWN), LATER) == (unseen, ())
    _, effects = step(unseen, finding(), LATER)
    assert told(effects) == ["card", "thread.seen_again"]


def test_numbers_that_only_grow_are_drawn_every_five_minutes_and_since_stays(stall):
    grown = finding(title=Said("title.node_lost", seconds={"length": 700.0}), since=LATER)
    assert step(stall, grown, START + 4 * MINUTE) == (stall, ())
    drawn, effects = step(stall, grown, START + 5 * MINUTE)
    assert (effects, drawn.finding.since) == ((ShowCard(),), START)
    assert step(drawn, finding(), START + 9 * MINUTE) == (drawn, ())


def test_numbers_go_on_where_the_clock_was_set_back(stall):
    grown = finding(title=Said("title.node_lost", seconds={"length": 700.0}), since=LATER)
    assert step(stall, grown, START - 540 * MINUTE)[1] == (ShowCard(),)


def test_another_sentence_is_drawn_at_once(stall):
    assert step(stall, finding(lines=()), LATER)[1] == (ShowCard(),)


def test_a_worse_verdict_mentions_again_and_a_lesser_one_does_not():
    uncertain, _ = step(None, finding("uncertain"), START)
    worse, effects = step(uncertain, finding("stalled"), LATER)
    assert (worse.what, told(effects)) == ("stalled", ["card", "thread.worse"])
    lesser, effects = step(worse, finding("uncertain"), LATER)
    assert (lesser.what, told(effects)) == ("uncertain", ["card", "thread.verdict"])


# --- nobody acknowledges --------------------------------------------------------------------------------------------


def test_an_unacknowledged_stall_is_said_again_once_and_then_to_the_second(stall):
    posted = TimePassed(START)
    assert step(stall, posted, START + 9 * MINUTE) == (stall, ())
    once, effects = step(stall, posted, START + 10 * MINUTE)
    assert effects == (ShowCard(), Mention(Who.ON_CALL, "thread.nobody_yet"))
    assert step(once, posted, START + 19 * MINUTE) == (once, ())
    twice, effects = step(once, posted, START + 20 * MINUTE)
    assert effects == (ShowCard(), Mention(Who.SECOND, "thread.nobody_still"))
    assert step(twice, posted, START + 999 * MINUTE) == (twice, ())


def test_people_are_told_again_also_where_the_clock_was_set_back_since_it_was_said(stall):
    """Slack's own time of the card counts then."""
    posted_at = START - 540 * MINUTE
    assert step(stall, TimePassed(posted_at), posted_at + 9 * MINUTE) == (stall, ())
    assert told(step(stall, TimePassed(posted_at), posted_at + 10 * MINUTE)[1]) == ["card", "thread.nobody_yet"]


def test_nobody_is_told_again_at_once_by_a_clock_that_is_behind_slacks(stall):
    posted = TimePassed(START + 15 * MINUTE)
    assert step(stall, posted, START + 24 * MINUTE) == (stall, ())
    assert told(step(stall, posted, START + 25 * MINUTE)[1]) == ["card", "thread.nobody_yet"]


def test_the_time_counts_from_when_people_could_see_the_card(stall):
    assert step(stall, TimePassed(None), START + 99 * MINUTE) == (stall, ())
    posted = TimePassed(START + 50 * MINUTE)
    assert step(stall, posted, START + 59 * MINUTE) == (stall, ())
    assert step(stall, posted, START + 60 * MINUTE)[0].escalated == 1


@pytest.mark.parametrize("event", [Acknowledged("U1"), NotAStall("U1"), Snoozed("U1", START + 200 * MINUTE)])
def test_somebody_who_looks_at_it_ends_the_escalation(stall, event):
    seen, effects = step(stall, event, LATER)
    assert effects[0] == ShowCard(at_once=True)
    assert seen.decision_revision == 2
    assert step(seen, TimePassed(START), START + 99 * MINUTE) == (seen, ())


# --- snoozes and other quiet ----------------------------------------------------------------------------------------


def test_a_snooze_runs_out_and_says_again_what_still_holds(stall):
    snoozed, effects = step(stall, Snoozed("U1", START + 60 * MINUTE, "known"), LATER)
    assert (snoozed.quiet.why, snoozed.quiet.by, snoozed.quiet.reason) == (QuietWhy.SNOOZED, "U1", "known")
    assert told(effects) == ["card", "thread.snoozed"]
    assert step(snoozed, TimePassed(START), START + 59 * MINUTE) == (snoozed, ())
    again, effects = step(snoozed, TimePassed(START), START + 60 * MINUTE)
    assert (again.quiet, told(effects)) == (None, ["card", "thread.still_there"])
    assert step(again, TimePassed(START), START + 69 * MINUTE) == (again, ())
    assert step(again, TimePassed(START), START + 70 * MINUTE)[0].escalated == 1


def test_what_is_over_is_said_also_while_it_is_snoozed(stall):
    snoozed, _ = step(stall, Snoozed("U1", START + 60 * MINUTE), LATER)
    assert told(step(snoozed, finding(presence=Presence.UNKNOWN), LATER)[1]) == ["card"]
    assert told(step(snoozed, finding(presence=Presence.ABSENT), LATER)[1]) == ["card", "thread.recovered"]


@pytest.mark.parametrize(
    ("before", "after", "breaks"),
    [("uncertain", "stalled", True), ("load_stuck", "erroring", True), ("stalled", "uncertain", False)],
)
def test_a_snooze_is_broken_by_another_verdict_that_is_as_bad_or_worse(before, after, breaks):
    opened, _ = step(None, finding(before), START)
    snoozed, _ = step(opened, Snoozed("U1", START + 60 * MINUTE), LATER)
    turned, effects = step(snoozed, finding(after), LATER)
    assert (turned.quiet is None) is breaks
    assert told(effects) == (["card", "thread.worse"] if breaks else ["card"])


def test_a_snooze_in_the_past_or_the_same_again_changes_nothing(stall):
    assert step(stall, Snoozed("U1", START), START) == (stall, ())
    snoozed, _ = step(stall, Snoozed("U1", START + MINUTE), START)
    assert step(snoozed, Snoozed("U1", START + MINUTE), START) == (snoozed, ())
    longer, _ = step(snoozed, Snoozed("U1", START + 2 * MINUTE), START)
    assert longer.quiet.until == START + 2 * MINUTE


def test_a_person_can_end_a_snooze(stall):
    snoozed, _ = step(stall, Snoozed("U1", START + 60 * MINUTE), LATER)
    ended, effects = step(snoozed, Unsnoozed("U2"), LATER)
    assert (ended.quiet, told(effects)) == (None, ["card", "thread.unsnoozed"])
    assert step(ended, Unsnoozed("U2"), LATER) == (ended, ())


def test_what_opens_in_a_maintenance_is_recorded_and_said_when_it_ends():
    going_on = quiet()
    incident, effects = step(None, finding(opening=Opening(quiet=going_on)), START)
    assert (effects, incident.said_at, incident.quiet) == ((), None, going_on)
    assert step(incident, finding("down", opening=Opening(quiet=going_on)), LATER)[1] == ()
    assert step(incident, TimePassed(None, going_on), LATER) == (incident, ())
    said, effects = step(incident, TimePassed(None, None), LATER)
    assert (said.said_at, told(effects)) == (LATER, ["card", "thread.still_there"])
    assert told(step(incident, finding(presence=Presence.ABSENT), LATER)[1]) == []


def test_a_maintenance_that_begins_quiets_an_open_card(stall):
    during, effects = step(stall, TimePassed(START, quiet()), LATER)
    assert (during.quiet.why, effects) == (QuietWhy.MAINTENANCE, (ShowCard(),))
    assert step(during, TimePassed(START, quiet()), START + 30 * MINUTE) == (during, ())


def test_an_unposted_verdict_that_turns_into_a_posted_one_is_said():
    unposted = Opening(quiet=quiet(QuietWhy.NOT_POSTED, until=None))
    incident, effects = step(None, finding("degraded", opening=unposted), START)
    assert effects == ()
    said, effects = step(incident, finding("stalled"), LATER)
    assert (said.said_at, told(effects)) == (LATER, ["card", "thread.worse"])


# --- groups ---------------------------------------------------------------------------------------------------------


def test_one_that_stands_on_a_groups_card_has_nothing_to_say_by_itself():
    member, effects = step(None, finding(opening=Opening(shown_on=3)), START)
    assert (effects, member.shown_on, member.said_at) == ((), 3, None)
    for event in (Acknowledged("U1"), Snoozed("U1", START + 9 * MINUTE), finding("down"), TimePassed(START)):
        member, effects = step(member, event, LATER)
        assert effects == ()
    assert step(member, finding(presence=Presence.ABSENT), LATER)[0].closed_at == LATER


def test_one_whose_card_nobody_saw_can_still_join(stall):
    member, effects = step(stall, Folded(3), LATER)
    assert (member.shown_on, member.said_at, effects) == (3, None, ())


def test_a_group_is_open_as_long_as_one_of_its_members_is():
    assert step(None, Members(Kind.MANY_BLIND, 1, 0), START) == (None, ())
    group, effects = step(None, Members(Kind.MANY_BLIND, 1, 1), START)
    assert (group.subject, group.node, told(effects)) == ("fleet", "", ["card", "thread.opened"])
    group, effects = step(group, Members(Kind.MANY_BLIND, 3, 3), LATER)
    assert told(effects) == ["card", "thread.more_members"]
    group, effects = step(group, Members(Kind.MANY_BLIND, 3, 1), LATER)
    assert told(effects) == ["card"]
    group, effects = step(group, Members(Kind.MANY_BLIND, 3, 0), LATER)
    assert (group.closed_at, told(effects)) == (LATER, ["card", "thread.recovered"])


def test_a_snooze_of_many_is_broken_by_one_more():
    group, _ = step(None, Members(Kind.MANY_BLIND, 3, 3), START)
    snoozed, _ = step(group, Snoozed("U1", START + 60 * MINUTE), START)
    fewer, effects = step(snoozed, Members(Kind.MANY_BLIND, 3, 2), LATER)
    assert (fewer.quiet is not None, told(effects)) == (True, ["card"])
    more, effects = step(fewer, Members(Kind.MANY_BLIND, 4, 3), LATER)
    assert (more.quiet, told(effects)) == (None, ["card", "thread.worse"])


def test_a_fleet_of_candidates_mentions_nobody():
    group, effects = step(None, Members(Kind.FLEET, 1, 1), START)
    assert effects == (ShowCard(),)
    assert step(group, Members(Kind.FLEET, 2, 2), LATER)[1] == (ShowCard(),)


# --- any sequence ---------------------------------------------------------------------------------------------------


@given(SEQUENCES)
def test_any_sequence_of_events_is_total_and_never_reopens(sequence):
    incident, now = None, START
    for minutes, event in sequence:
        now += minutes * MINUTE
        before = incident
        incident, effects = step(before, event, now)
        assert_consistent(before, incident, event, effects)


def assert_consistent(before, after, event, effects):
    if before is after:
        assert effects == ()
        return
    assert after is not None
    if before is None:
        assert isinstance(event, Finding | Members | Judged)
        assert (after.revision, after.closed_at) == (1, None)
    else:
        assert before.closed_at is None
        assert (after.kind, after.subject, after.opened_at) == (before.kind, before.subject, before.opened_at)
        assert after.decision_revision >= before.decision_revision
        if effects:
            assert after.revision == before.revision + 1
            assert effects[0] in (ShowCard(), ShowCard(at_once=True))
    if after.shown_on is not None or after.said_at is None:
        assert effects == ()
    if after.quiet and not after.closed_at and not (before and after.decision_revision > before.decision_revision):
        assert not any(isinstance(effect, Mention | ThreadLine) for effect in effects)
    if any(isinstance(effect, Mention) for effect in effects):
        assert after.wakes_people
        assert not after.closed_at
