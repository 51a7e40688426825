"""Snooze, dialogs, status and incidents, by people at a real Slack workspace on loopback."""

import re
from datetime import timedelta

import pytest
import sqlalchemy as sa

from bot import clock
from bot.incident import Kind, QuietWhy
from bot.store import incidents
from tests.bot.outward import GONE, C, H, locked
from tests.bot.slack_bot import SlackBot, answer, ask, at_work
from tests.build import FIRST_WINDOW, heartbeat, observation


async def only_open(bot):
    (incident,) = await bot.store.read(incidents.all_open)
    return incident


async def opened(workspace, card, person="alice", version=-1):
    """Who looks at the dialog, once it is filled in."""
    who = workspace.person(person)
    seen = await who.press(card, "Snooze…", version=version)
    assert seen.acked, seen.failure
    await workspace.until(lambda: who.modal and who.modal.callback_id == "snooze")
    return who


async def snooze_dialog(workspace, card, **values):
    """Opens it, submits it, and waits for what it then says."""
    who = await opened(workspace, card)
    seen = await who.submit(values)
    if seen.failure or who.modal is None or who.modal.errors:
        return who.modal
    await workspace.until(lambda: who.modal and "One moment" not in str(who.modal.blocks))
    return who.modal


def said(view):
    return " ".join(str(block) for block in view.blocks)


# --- the dialog -----------------------------------------------------------------------------------------------------


async def test_the_dialog_opens_at_once_and_is_filled_in_then(bot, workspace, stall):
    alice = await opened(workspace, stall)
    first, second = alice.modal.versions
    assert "One moment" in str(first)
    assert "gpu-07 chat" in str(second)
    assert len(workspace.calls_of("views.open")) == 1
    assert alice.ephemerals == []


@pytest.mark.parametrize(
    ("values", "length"),
    [
        ({}, timedelta(hours=1)),
        ({"length": "4 hours"}, timedelta(hours=4)),
        ({"length": "Other, below", "custom": "“90m”"}, timedelta(minutes=90)),
        ({"custom": "2d"}, timedelta(days=2)),  # what somebody typed is what they mean
    ],
)
async def test_a_snooze_lasts_as_long_as_was_chosen(bot, workspace, stall, values, length):
    view = await snooze_dialog(workspace, stall, **values, reason="driver <!channel> *update*")
    assert "Snoozed until <!date^" in said(view)
    incident = await only_open(bot)
    assert incident.quiet.why is QuietWhy.SNOOZED
    assert abs(incident.quiet.until - clock.now() - length) < timedelta(seconds=10)
    assert (incident.quiet.by, incident.quiet.reason) == ("U0ALICE", "driver <!channel> *update*")
    await workspace.until(lambda: "Snoozed by <@U0ALICE>" in stall.text)
    assert "<!channel>" not in stall.text
    assert [outcome for *_, outcome in await bot.clicks()] == ["a dialog", "done"]


async def test_a_submission_that_slack_delivers_twice_shows_what_the_first_came_to(bot, workspace, stall):
    alice = await opened(workspace, stall)
    workspace.sockets.duplicate()
    await alice.submit({})
    await workspace.until(lambda: "Snoozed until" in said(alice.modal))
    first, second = [one for one in workspace.sockets.envelopes if one.payload["type"] == "view_submission"]
    await workspace.until(lambda: first.acked_at and second.acked_at)
    assert first.answer == second.answer
    assert [outcome for *_, outcome in await bot.clicks()] == ["a dialog", "done"]


async def test_a_dialog_whose_database_is_slow_says_one_moment_and_then_the_outcome(bot, workspace, stall):
    alice = await opened(workspace, stall)
    with bot.store.engine.connect().execution_options(writes=True) as holder:
        holder.execute(sa.text("SELECT 1"))
        assert (await alice.submit({})).acked
        assert "One moment" in said(alice.modal)
    await workspace.until(lambda: "Snoozed until" in said(alice.modal))


async def test_until_nine_is_the_next_nine_in_the_channels_zone(bot, workspace, stall):
    await snooze_dialog(workspace, stall, length="Until 09:00")
    until_ = (await only_open(bot)).quiet.until
    assert (until_.hour, until_.minute) == (9, 0)
    assert timedelta(0) < until_ - clock.now() <= timedelta(days=1)


@pytest.mark.parametrize("custom", ["soon", "0m", "31d", "2h 3h", "until=99:00"])
async def test_a_wrong_length_is_said_in_the_dialog_and_changes_nothing(bot, workspace, stall, custom):
    view = await snooze_dialog(workspace, stall, length="Other, below", custom=custom)
    assert view.errors["custom"].startswith("Not understood")
    assert (await only_open(bot)).quiet is None


async def test_the_whole_node_can_be_snoozed_from_its_card(bot, workspace, stall):
    view = await snooze_dialog(workspace, stall, scope="Everything about gpu-07 that is not worse")
    assert "gpu-07 is snoozed until" in said(view)
    assert bot.advance.snoozed_node("gpu-07") is not None
    await workspace.until(lambda: "The node is snoozed by <@U0ALICE>" in stall.text)


async def test_a_snooze_is_ended_by_its_button(bot, workspace, stall):
    await snooze_dialog(workspace, stall)
    await workspace.until(lambda: "End snooze" in str(stall.blocks))
    seen = await workspace.person("bob").press(stall, "End snooze")
    assert await answer(workspace, seen) == "The snooze is over"
    assert (await only_open(bot)).quiet is None


async def test_something_worse_breaks_a_snooze(bot, workspace, home, stall):
    await snooze_dialog(workspace, stall)
    await bot.found(what="down")
    await workspace.until(lambda: "Snoozed by" not in stall.text)


async def test_acknowledge_and_snooze_work_from_an_old_screen_while_the_incident_is_open(bot, workspace, stall):
    await answer(workspace, await workspace.person("alice").press(stall, "Acknowledge"))
    await workspace.until(lambda: stall.edits == 1)
    bob = await opened(workspace, stall, "bob", version=0)
    await bob.submit()
    await workspace.until(lambda: "Snoozed by <@U0BOB>" in stall.text)


async def test_a_dialog_of_something_that_is_over_says_so_and_draws_the_card_again(bot, workspace, stall):
    await bot.found(GONE)
    await workspace.until(lambda: stall.edits == 1)
    alice = workspace.person("alice")
    await alice.press(stall, "Snooze…", version=0)
    await workspace.until(lambda: alice.modal and "This is over since" in said(alice.modal))
    await workspace.until(lambda: stall.edits == 2)


async def test_an_incident_that_ends_while_its_dialog_is_open_is_not_snoozed(bot, workspace, stall):
    alice = await opened(workspace, stall)
    await bot.found(GONE)
    await alice.submit()
    await workspace.until(lambda: "This is over since" in said(alice.modal))
    assert (await bot.clicks())[-1][3] == "closed"


async def test_where_slack_opens_no_dialog_the_command_is_named(bot, workspace, stall):
    workspace.faults.refuse("views.open", "expired_trigger_id")
    seen = await workspace.person("alice").press(stall, "Snooze…")
    assert await answer(workspace, seen) == (
        "Slack did not open the dialog in time. Please press again, or type `/gpu-snooze 1 2h`"
    )
    assert [outcome for *_, outcome in await bot.clicks()] == ["no dialog"]


async def test_not_a_stall_asks_why_and_counts_as_our_mistake(bot, workspace, stall):
    alice = workspace.person("alice")
    assert (await alice.choose(stall, "card_menu", "Not a stall…")).acked
    await workspace.until(lambda: alice.modal and alice.modal.callback_id == "not_a_stall")
    await alice.submit({"reason": "a long prompt"})
    await workspace.until(lambda: "Thank you" in said(alice.modal))
    assert (await only_open(bot)).disputed_by == "U0ALICE"


async def test_a_dialog_of_another_version_and_one_of_another_team_change_nothing(bot, workspace, stall, home):
    alice = await opened(workspace, stall)
    alice.modal.body["private_metadata"] = "of tomorrow"
    await alice.submit()
    await workspace.until(lambda: "not known here any more" in said(alice.modal))
    home.members.append("U0ERIN")
    seen = await workspace.person("erin").press(stall, "Snooze…")
    assert (await answer(workspace, seen)).startswith("Only members of the workspace")
    assert (await only_open(bot)).quiet is None


# --- commands -------------------------------------------------------------------------------------------------------


async def test_snooze_by_command_takes_an_incident_or_a_node_and_off_ends_it(bot, workspace, stall):
    text = await ask(workspace, "/gpu-snooze", "#1 2h waiting for parts")
    assert text.startswith("Snoozed until <!date^")
    assert (await only_open(bot)).quiet.reason == "waiting for parts"
    assert await ask(workspace, "/gpu-snooze", "1 off") == "The snooze is over"
    assert await ask(workspace, "/gpu-snooze", "1 off") == "This is not snoozed"
    await bot.idle()
    assert (await ask(workspace, "/gpu-snooze", "gpu-01 for until=18:00 “new fans”")).startswith("gpu-01 is snoozed")
    assert bot.advance.snoozed_node("gpu-01").reason == "new fans"
    assert await ask(workspace, "/gpu-snooze", "gpu-01 off") == "The snooze of gpu-01 is over"
    assert await ask(workspace, "/gpu-snooze", "gpu-01 off") == "gpu-01 is not snoozed"


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("/gpu-snooze", "", "/gpu-snooze id|node duration [reason]\n`/gpu-snooze 12 2h"),
        ("/gpu-snooze", "1", "/gpu-snooze id|node duration"),
        ("/gpu-snooze", "99 2h", "There is no incident `99`"),
        (
            "/gpu-snooze",
            "gpu-001 2h",
            "There is no node `gpu-001`, and it is no incident's number\nDid you mean gpu-01?",
        ),
        ("/gpu-snooze", "1 soon", "I do not understand the duration `soon`"),
        ("/gpu-snooze", "1 of", "I do not understand the duration `of`\nDid you mean off?"),
        ("/gpu-snooze", "1 0m", "`0m` is too short or too long"),
        ("/gpu-snooze", "1 60d", "`60d` is too short or too long"),
        ("/gpu-incidents", "mien", "I do not know the word `mien`\nDid you mean mine?"),
        ("/gpu-incidents", "99", "There is no incident `99`"),
        ("/gpu-incidents", "1 2", "I do not know the word `2`"),
        ("/gpu-status", "gpu-1", "I do not know the word `gpu-1`\nDid you mean gpu-01?"),
    ],
)
async def test_what_is_wrong_gets_the_nearest_word_and_three_examples(bot, workspace, stall, command, text, expected):
    await bot.idle()
    said = await ask(workspace, command, text)
    assert said.startswith(expected)
    assert said.count(f"`{command}") == 3


async def test_status_tells_the_fleet_and_one_node(bot, workspace, stall):
    await bot.idle((C, H))
    text = await ask(workspace, "/gpu-status")
    assert text.startswith("*2 nodes*: 1 GPUs free now, 1 in use, 0 not known\n2 open incidents\n")
    text = await ask(workspace, "/gpu-status", "gpu-01")
    assert re.match(r"\*gpu-01\*: 1 GPUs free now, 1 in use, 0 not known\nLast heartbeat \d+ s ago\n", text)
    assert "GPU 0: free for 15 min" in text
    assert "GPU 1: it was seen in use just now (memory in use)" in text


async def test_incidents_lists_what_is_open_whose_it_is_and_one_with_what_people_did(bot, workspace, stall):
    await bot.found(subject="gpu-08/chat", what="down")
    await answer(workspace, await workspace.person("alice").press(stall, "Acknowledge"))
    text = await ask(workspace, "/gpu-incidents")
    assert text.startswith("*2 open incidents*\n")
    assert "*#1* " in text
    assert "Acknowledged by <@U0ALICE>" in text
    assert (await ask(workspace, "/gpu-incidents", "mine")).startswith("*1 open incident is yours*\n*#1* ")
    assert (await ask(workspace, "/gpu-incidents", "mine", person="bob")).startswith("*0 open incidents are yours*")
    text = await ask(workspace, "/gpu-incidents", "INC-1")
    assert "<@U0ALICE>: acknowledged, done" in text
    await bot.found(GONE)
    assert "Over since" in await ask(workspace, "/gpu-incidents", "1")


# --- what cannot be trusted -----------------------------------------------------------------------------------------

HOSTILE = [
    "<!channel>",
    "<@U0ALICE>",
    "<http://evil|click>",
    "`code`",
    "\u202eevil",
    "\x00\x1b[31m",
    "*b* _i_ ~s~",
    "x" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
async def test_nothing_that_people_type_becomes_markup(bot, workspace, home, stall, text):
    for command, words in [
        ("/gpu-status", text),
        ("/gpu-incidents", text),
        ("/gpu-snooze", f"{text} 2h"),
        ("/gpu-snooze", f"1 {text}"),
        ("/gpu-snooze", f"1 2h {text}"),
    ]:
        seen = await workspace.person("alice").command(command, words)
        shown = await answer(workspace, seen)
        assert "<!channel" not in shown
        assert "<http" not in shown
        assert "\u202e" not in shown
        assert len(shown) < 4000
    await workspace.until(lambda: "Snoozed by" in stall.text)
    assert "<!channel" not in stall.text
    assert "<http" not in stall.text
    assert len(stall.text) < 4000


async def test_a_click_on_a_deleted_card_and_one_after_a_start_are_answered(bot, workspace, home, stall):
    stall.deleted_at = workspace.now()
    seen = await workspace.person("alice").press(stall, "Acknowledge", version=0)
    assert (await answer(workspace, seen)).startswith("Acknowledged.")  # its screen had it still
    await bot.stop()
    async with at_work(SlackBot(bot.store, bot.fleet, bot.advance, workspace), workspace):
        seen = await workspace.person("bob").press(stall, "Acknowledge", version=0)
        assert (await answer(workspace, seen)).startswith("<@U0ALICE> acknowledged this before you")


async def test_a_locked_database_is_said_to_the_one_who_pressed(bot, workspace, stall):
    with locked(bot.store):
        seen = await workspace.person("alice").press(stall, "Acknowledge")
        assert (await answer(workspace, seen)).startswith("The bot's database takes nothing this moment")
    seen = await workspace.person("alice").press(stall, "Acknowledge")
    assert (await answer(workspace, seen)).startswith("Acknowledged.")


async def test_the_rest_of_a_fleet_card_is_behind_show_all(bot, workspace, candidates):
    for number in range(6):
        node = f"gpu-{number:02}"
        bot.fleet.heard(heartbeat(FIRST_WINDOW + 2, (C,), node=node))
        await bot.report(*(observation(FIRST_WINDOW + index, (C,), node=node) for index in range(3)))
    incident = next(one for one in await bot.store.read(incidents.all_open) if one.kind is Kind.FLEET)
    now = clock.now()
    token = await bot.store.write(lambda transaction: incidents.button_token(transaction.connection, incident, now))
    client = bot.notifier._client
    show = {"type": "button", "action_id": "show_all", "value": token, "text": {"type": "plain_text", "text": "All"}}
    made = await client.chat_postMessage(
        channel=candidates.id, text="card", blocks=[{"type": "actions", "elements": [show]}]
    )
    alice = workspace.person("alice")
    assert (await alice.press(candidates.messages[made["ts"]], "All")).acked
    await workspace.until(lambda: alice.modal and "gpu-05" in said(alice.modal))
