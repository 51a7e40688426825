"""The shortcut in threads, App Home, and presses and answers that Slack delivers twice or not at all."""

import pytest
from msgspec.structs import replace

from bot.advance import Advance
from bot.config import Group
from bot.groups import Approvers
from bot.judge.verdict import Presence
from tests.bot.outward import sent, until
from tests.bot.slack_bot import SlackBot, answer, ask, at_work


def bot_of(group, store, fleet, settings, workspace):
    """At work, with this one group of nodes."""
    advance = Advance(store, fleet, replace(settings, groups=[group]))
    return at_work(SlackBot(store, fleet, advance, workspace), workspace)


# --- the shortcut ---------------------------------------------------------------------------------------------------


async def test_the_shortcut_acknowledges_from_a_thread_and_from_the_card_itself(bot, workspace, home, stall):
    await bot.found(Presence.UNKNOWN)
    await workspace.until(lambda: home.replies(stall))
    seen = await workspace.person("alice").shortcut("ack_message", home.replies(stall)[0])
    assert (await answer(workspace, seen)).startswith("Acknowledged.")
    seen = await workspace.person("bob").shortcut("ack_message", stall)
    assert (await answer(workspace, seen)).startswith("<@U0ALICE> acknowledged this before you")
    assert [outcome for *_, outcome in await bot.clicks()] == ["done", "already"]


async def test_the_shortcut_on_somebody_elses_message_says_so(bot, workspace, home):
    message = await workspace.person("bob").say("hello", "gpu-oncall")
    seen = await workspace.person("alice").shortcut("ack_message", message)
    assert (await answer(workspace, seen)).startswith("This message is none of this bot's cards")


async def test_a_press_that_slack_delivers_twice_is_carried_out_and_answered_once(bot, workspace, stall):
    workspace.sockets.duplicate()
    seen = await workspace.person("alice").press(stall, "Acknowledge")
    assert (await answer(workspace, seen)).startswith("Acknowledged.")
    workspace.sockets.duplicate()
    assert (await ask(workspace, "/gpu-snooze", "1 2h")).startswith("Snoozed")
    await bot.found(what="down")
    await sent(bot)
    assert [outcome for *_, outcome in await bot.clicks()] == ["done", "done"]
    assert len(workspace.ephemerals) == 2


@pytest.mark.parametrize("fault", ["rate_limited", "server_error", "drop"])
async def test_an_answer_that_slack_does_not_take_is_given_again(bot, workspace, stall, fault):
    getattr(workspace.faults, fault)("response_url")
    seen = await workspace.person("alice").press(stall, "Acknowledge")
    assert (await answer(workspace, seen)).startswith("Acknowledged.")
    assert await bot.clicks() == [("U0ALICE", "acknowledge", 1, "done")]


async def test_app_home_shows_the_fleet_what_is_mine_what_is_quiet_and_the_bots_own_health(bot, workspace, stall):
    await bot.idle()
    alice = workspace.person("alice")
    await answer(workspace, await alice.press(stall, "Acknowledge"))
    await ask(workspace, "/gpu-snooze", "1 2h new *fans*")
    assert (await alice.open_home()).acked
    await workspace.until(lambda: alice.home)
    shown = str(alice.home.blocks)
    assert "*Nodes: 2* · GPUs free now: 1 · open incidents: 2" in shown
    assert "#1" in shown
    assert "Snoozed by <@U0ALICE>" in shown
    assert "Well. Messages that wait for Slack: " in shown
    workspace.faults.refuse("chat.update", "invalid_blocks")
    await bot.found(what="down")
    await until(bot.red)
    await workspace.person("bob").open_home()
    await workspace.until(lambda: workspace.person("bob").home)
    assert "invalid blocks" in str(workspace.person("bob").home.blocks)


async def test_app_home_shows_my_claims_my_rights_and_the_connections(store, fleet, settings, workspace):
    group = Group(name="all", nodes=["gpu-0*"], approvers=Approvers(users=["U0ALICE"]))
    async with bot_of(group, store, fleet, settings, workspace) as bot:
        await bot.idle()
        await ask(workspace, "/gpu-claim", "gpu-01 0 4h fine-tuning")
        alice, bob = workspace.person("alice"), workspace.person("bob")
        await alice.open_home()
        await bob.open_home()
        await workspace.until(lambda: alice.home and bob.home)
        assert "Claimed: gpu-01 GPU 0 by <@U0ALICE>" in str(alice.home.blocks)
        assert "restarts and reboots of 1 of 1 nodes" in str(alice.home.blocks)
        assert "Connections to Slack: 2 of 2" in str(alice.home.blocks)
        assert "Claimed:" not in str(bob.home.blocks)
        assert "restarts and reboots of 0 of 1 nodes" in str(bob.home.blocks)


async def test_acknowledge_works_in_app_home(store, fleet, settings, home, workspace):
    group = Group(name="all", nodes=["*"], on_call=["U0ALICE"])
    async with bot_of(group, store, fleet, settings, workspace) as bot:
        await bot.found()
        await sent(bot)
        alice = workspace.person("alice")
        await alice.open_home()
        await workspace.until(lambda: alice.home)
        assert (await alice.press(alice.home, "Acknowledge")).acked
        await workspace.until(lambda: "Acknowledged by <@U0ALICE>" in home.cards[0].text)
        await workspace.until(lambda: "Acknowledged. The card shows it to everybody" in str(alice.home.blocks))
