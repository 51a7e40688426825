"""Cards of every kind of incident: what they say, and that any of them fits into Slack and is harmless."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bot.incident import CardState, GpuChange, Incident, Kind, Quiet, QuietWhy, Said
from bot.judge.verdict import Because, Presence
from bot.render import thread
from bot.render.card import Drawing, card
from bot.render.words import words
from demo.workspace.block_kit import message_problems
from tests.bot.any_input import ALICE, BOB, CANDIDATES, CHANGES, FOUND, GROUPED, TEXTS, assert_fits_and_is_harmless
from tests.bot.build_cards import candidate, gpu
from tests.bot.build_incidents import finding
from tests.build import START, gpu_uuid

EN = words("en")
NOW = START + timedelta(hours=3)
LOST = finding(
    "node_lost",
    kind=Kind.NODE_LOST,
    subject="gpu-07",
    title=Said("title.node_lost", seconds={"length": 240.0}),
    last_known=(Said("known.gpus", {"held": "2", "candidate": "6", "unknown": "0"}, instants={"at": START}),),
)


def incident(found=LOST, **changes):
    values = {"id": 7, "kind": found.kind, "subject": found.subject, "opened_at": NOW, "finding": found}
    return Incident(**{**values, **changes})


def group(kind=Kind.FLEET, **changes):
    values = {"id": 8, "kind": kind, "subject": "fleet", "opened_at": NOW, "members": 2, "members_open": 2}
    return Incident(**{**values, **changes})


def drawn(shown, **changes):
    return card(EN, Drawing(shown, "t" * 22, changes.pop("free_now", set()), NOW, **changes))


def labels(message):
    actions = [block for block in message.blocks if block["type"] == "actions"]
    found = [element for block in actions for element in block["elements"]]
    options = [option for element in found for option in element.get("options", [])]
    return [one["text"]["text"] for one in [*(element for element in found if "text" in element), *options]]


# --- what cards say -------------------------------------------------------------------------------------------------


def test_a_lost_node_is_told_with_what_it_was_doing_and_who_is_to_look():
    message = drawn(incident(mentions=(ALICE, BOB)))
    title, *rest = message.text.splitlines()
    assert title == "BLIND gpu-07: no word from the node for 4 min"
    assert "For <@U0ALICE> <@U0BOB>" in rest
    assert "2 GPUs in use, 6 idle, 0 not judged" in message.text
    assert labels(message) == ["Acknowledge", "Snooze…"]
    assert "For <@U0ALICE> <@U0BOB>" in str(message.blocks)


@pytest.mark.parametrize(
    ("changes", "title", "shown"),
    [
        ({"closed_at": NOW}, "RECOVERED gpu-07. It was: the node is lost", []),
        ({"finding": replace(LOST, presence=Presence.UNKNOWN, changed_at=NOW)}, "NOT SEEN gpu-07: ", None),
        ({"acknowledged_by": ALICE, "acknowledged_at": NOW}, "BLIND gpu-07", ["Snooze…"]),
        ({"quiet": Quiet(QuietWhy.SNOOZED, 1, NOW, ALICE)}, "BLIND gpu-07", ["Acknowledge", "End snooze"]),
        ({"quiet": Quiet(QuietWhy.MAINTENANCE, 1, NOW)}, "BLIND gpu-07", ["Acknowledge", "Snooze…"]),
    ],
)
def test_states_of_a_finding(changes, title, shown):
    message = drawn(incident(**changes))
    assert message.text.startswith(title)
    if shown is not None:
        assert labels(message) == shown


def test_a_runner_can_be_said_to_work():
    stall = finding("stalled", subject="gpu-07/chat", title=Said("title.node_lost", seconds={"length": 60.0}))
    assert labels(drawn(incident(stall))) == ["Acknowledge", "Snooze…", "Evidence", "Not a stall…"]
    said = incident(stall, disputed_by=BOB, disputed_at=NOW)
    assert "<@U0BOB> says that it works" in drawn(said).text


@pytest.mark.parametrize(
    ("why", "line"),
    [
        (QuietWhy.SNOOZED, "Snoozed by <@U0ALICE> until <!date^1796007600^"),
        (QuietWhy.NODE_SNOOZED, "The node is snoozed by <@U0ALICE> until"),
        (QuietWhy.MAINTENANCE, "Maintenance until"),
        (QuietWhy.NOT_POSTED, "Recorded only"),
        (QuietWhy.REMEDY, "A reboot is under way"),
    ],
)
def test_what_keeps_it_quiet_is_on_the_card(why, line):
    text = drawn(incident(quiet=Quiet(why, 1, NOW, ALICE, "*new* driver"))).text
    assert line in text
    assert ("*new* driver" in text) is (why is not QuietWhy.NOT_POSTED)


def test_a_fleet_card_is_a_table_of_nodes_with_what_is_free_now():
    members = [replace(candidate(gpu(0), gpu(1)), subject="gpu-01"), replace(candidate(gpu(4)), subject="gpu-02")]
    message = drawn(group(), members=members, free_now={gpu_uuid(0), gpu_uuid(4)})
    assert message.text.splitlines()[0] == "FREE 2 GPUs on 2 nodes"
    (table,) = [block for block in message.blocks if block["type"] == "table"]
    cells = [[cell["text"] for cell in row] for row in table["rows"]]
    assert [row[:2] for row in cells] == [
        ["Node", "GPUs"],
        ["gpu-01", "GPU 0 free; GPU 1 being judged"],
        ["gpu-02", "GPU 4 free"],
    ]
    assert labels(message) == ["Acknowledge", "Snooze…"]


@pytest.mark.parametrize("kind", [Kind.MANY_BLIND, Kind.STORM])
@pytest.mark.parametrize("count", [1, 60, 1000])
def test_a_card_for_many_counts_what_does_not_fit(kind, count):
    members = [
        incident(replace(LOST, subject=f"gpu-{number:04d}"), subject=f"gpu-{number:04d}") for number in range(count)
    ]
    message = drawn(group(kind, members=count, members_open=count), members=members)
    (table,) = [block for block in message.blocks if block["type"] == "table"]
    left_out = count - (len(table["rows"]) - 1)
    assert message_problems(message.blocks) == []
    assert (f"+ {left_out} more" in message.text) is (left_out > 0)
    assert ("Show all" in labels(message)) is (left_out > 0)


# --- any card -------------------------------------------------------------------------------------------------------

ANY = settings(max_examples=60, deadline=None, phases=[Phase.generate])


def named(*shown):
    """Whom a card may mention: those whom the config names, and those who pressed."""
    people = {person for one in shown for person in (one.acknowledged_by, one.disputed_by, *one.mentions)}
    return people & {ALICE, BOB}


@ANY
@given(CANDIDATES, st.booleans(), st.booleans(), st.sampled_from([1, 7, 70]))
def test_any_candidate_card_fits_and_is_harmless(shown, is_free, twice, times):
    shown = replace(shown, gpus=shown.gpus * times)
    free_now = {one.uuid for one in shown.gpus} if is_free else set()
    message = card(EN, Drawing(shown, "t" * 22, free_now, NOW, twice))
    assert_fits_and_is_harmless(message, named(shown))


@ANY
@given(FOUND, st.sampled_from([1, 7, 70]))
def test_any_card_of_a_finding_fits_and_is_harmless(shown, times):
    many = replace(shown.finding, lines=shown.finding.lines * times, last_known=shown.finding.last_known * times)
    shown = replace(shown, finding=many, mentions=shown.mentions * times, ending=shown.ending * times)
    assert_fits_and_is_harmless(drawn(shown), named(shown))


@ANY
@given(GROUPED, st.lists(CANDIDATES | FOUND, max_size=4), st.sampled_from([1, 7, 70]))
def test_any_card_of_a_group_fits_and_is_harmless(shown, members, times):
    assert_fits_and_is_harmless(drawn(shown, members=members * times), named(shown))


# --- lines of the thread --------------------------------------------------------------------------------------------


def line_of_gpus(changes, language="en"):
    return thread.line(words(language), "thread.left", {"changes": msgspec.json.encode(changes).decode()})


@ANY
@given(st.sampled_from(Because), TEXTS, st.sampled_from(["confirmed", "not_judged", "left"]))
def test_any_line_that_an_older_version_left_is_harmless(because, detail, state):
    message = thread.line(EN, f"thread.{state}", {"index": "3", "because": because, "detail": detail})
    assert_fits_and_is_harmless(message)


@ANY
@given(st.lists(CHANGES, min_size=1, max_size=64))
def test_any_line_of_gpus_fits_and_is_harmless(changes):
    assert_fits_and_is_harmless(line_of_gpus(changes))


LEFT = GpuChange(CardState.LEFT, (3,), Because.SAMPLE_HELD, "memory_held")
NODE_SILENT = GpuChange(CardState.NOT_JUDGED, (0, 1, 2, 4), Because.HEARTBEAT_OLD, "50 s")


@pytest.mark.parametrize(
    ("language", "changes", "shown"),
    [
        ("en", [GpuChange(CardState.CONFIRMED, (3,))], "GPU 3 is free"),
        ("en", [GpuChange(CardState.CONFIRMED, (0, 1, 3))], "GPUs 0–1, 3 are free"),
        ("en", [LEFT], "GPU 3 is no longer free: it was seen in use just now (memory in use)"),
        (
            "en",
            [NODE_SILENT, LEFT],
            "GPUs 0–2, 4 are not judged any more. The same for each: the node's last heartbeat is 50 s old\n"
            "GPU 3 is no longer free: it was seen in use just now (memory in use)",
        ),
        ("ja", [GpuChange(CardState.CONFIRMED, (3,))], "GPU 3 は空いています"),
        ("ja", [GpuChange(CardState.CONFIRMED, (0, 1, 3))], "GPU 0–1, 3 は空いています"),
    ],
)
def test_a_line_of_gpus_names_those_together_that_changed_in_the_same_way(language, changes, shown):
    assert line_of_gpus(changes, language).text == shown


def test_a_line_of_one_gpu_that_an_older_version_left_is_still_said():
    values = {"index": "3", "because": "sample_held", "detail": "memory_held"}
    assert thread.line(EN, "thread.left", values) == line_of_gpus([LEFT])


@ANY
@given(st.sampled_from(["thread.opened", "thread.nobody_yet", "thread.worse"]), st.lists(st.just(ALICE) | TEXTS))
def test_a_line_mentions_users_by_their_ids_and_nothing_else(key, people):
    assert_fits_and_is_harmless(thread.line(EN, key, {"mention": " ".join(people)}), {ALICE})
