"""What becomes of an order that people approved, and what a reboot brings with it."""

from datetime import timedelta

import pytest

from bot.act.desk import Wish
from bot.incident import Kind, QuietWhy
from bot.remedy.approvers import Approvers as ListOfNow
from bot.remedy.model import State, Times
from tests.bot.build_incidents import finding
from tests.bot.outward import until
from tests.bot.remedy_bot import LONG, NODE, approved, asked, rebooting
from wire.orders import Action
from wire.remedies import OrderState, Refusal


async def test_a_refusal_of_the_node_stands_on_the_card(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    node.refusal = Refusal.RECOVERED
    bot.carry()
    await approved(workspace, card)
    await bot.until_state(State.REFUSED)
    await workspace.until(lambda: card.text.startswith("NOT DONE gpu-01 chat: the node refused"), LONG)
    assert "the node says: it answered a canary just now" in card.text


async def test_what_changed_between_the_click_and_the_order_keeps_it_from_leaving(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    await approved(workspace, card)
    node.rebooted()
    await bot.look(node)
    bot.carry()
    await bot.until_state(State.VOID)
    await workspace.until(lambda: "The node was started anew since this was asked for" in card.text, LONG)
    assert node.orders == []


async def test_an_order_that_nobody_takes_did_not_happen(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    await node.link.close()
    bot.carry()
    await approved(workspace, card)
    incident = await bot.until_state(State.VOID, State.UNANSWERED)
    assert node.orders == []
    assert incident.remedy.order_id


async def test_a_bot_that_was_killed_while_it_sent_never_sends_again(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    await approved(workspace, card)
    incident = await bot.request()
    body = await bot.advance.remedies.begin(
        incident.id, "order-1", bot.lists.of(NODE), lambda order: b"signed", has_bus=True
    )
    assert body == b"signed"
    bot.carry()  # as after a start
    await bot.until_state(State.UNANSWERED)
    again = await bot.advance.remedies.begin(
        incident.id, "order-2", bot.lists.of(NODE), lambda order: b"signed", has_bus=True
    )
    assert again is None
    node.beat()
    assert node.orders == []
    assert "NO ANSWER YET" in card.text or await bot.state() is State.UNANSWERED


async def test_an_approver_who_was_removed_before_the_order_left_counts_no_more(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    await approved(workspace, card, "bob")
    gone = ListOfNow(named=frozenset({"U0ALICE"}))
    incident = await bot.request()
    assert await bot.advance.remedies.begin(incident.id, "o", gone, lambda order: b"", has_bus=True) is None
    assert await bot.state() is State.VOID
    assert "blocker.approver_gone" in [one.key for one in (await bot.request()).remedy.because]


async def test_the_kill_switch_ends_what_waits_and_keeps_everything_else_from_beginning(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    await bot.desk.stop_all("host:root", "something is wrong")
    assert await bot.state() is State.STOPPED
    assert (await approved(workspace, card, version=0)).startswith("This request is decided already: stopped")
    assert await bot.desk.resume("host:root")
    await asked(bot, workspace, stall)


async def test_after_a_restart_that_did_not_help_the_card_offers_a_reboot_and_after_two_of_them_none(
    bot, node, workspace, stall
):
    assert "reboot_node" not in str(stall.blocks)
    bot.carry()
    await approved(workspace, await asked(bot, workspace, stall))
    await bot.until_state(State.ACCEPTED)
    node.says(OrderState.FAILED, "command ended with status 1")
    await bot.look(node)
    await bot.until_state(State.FAILED)
    await bot.look(node)
    await workspace.until(lambda: "reboot_node" in str(stall.blocks), LONG)
    for _ in range(2):
        await rebooting(bot)
        node.says(OrderState.FAILED, "command ended with status 1")
        await bot.look(node, 2)
        await bot.until_state(State.FAILED)
    await bot.look(node, 2)
    await workspace.until(lambda: "inspect the hardware" in stall.text, LONG)
    assert "reboot_node" not in str(stall.blocks)
    planned = await bot.desk.planned(Wish(Action.REBOOT_NODE, NODE), "U0ALICE")
    assert "budget" in [one.name for one in planned.blockers]


class TestWhatARebootBrings:
    @pytest.fixture
    def times(self):
        return Times(proof=timedelta(seconds=4), loading=timedelta(seconds=1))

    async def test_the_lost_node_is_said_only_when_it_does_not_come_back_in_time(self, bot, node, workspace, stall):
        bot.carry()
        await rebooting(bot)
        lost = finding(what="node_lost", kind=Kind.NODE_LOST, subject=NODE)
        await bot.advance.found(lost)
        (quiet,) = [one for one in bot.advance.open_incidents() if one.kind is Kind.NODE_LOST]
        assert (quiet.quiet.why, quiet.said_at) == (QuietWhy.REMEDY, None)
        await bot.until_state(State.FAILED)

        async def is_said():
            await bot.advance.look_around()
            await bot.advance.found(lost)
            found = [one for one in bot.advance.open_incidents() if one.kind is Kind.NODE_LOST]
            return bool(found) and found[0].said_at is not None

        await until(is_said, LONG)
