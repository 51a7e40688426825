"""Remedies as people meet them, from the button to done: the dialog, who may approve, two clicks, no time left."""

import asyncio
from datetime import timedelta

import pytest

from bot import clock
from bot.groups import Approvers, Group
from bot.remedy.model import State, Times
from bot.store import audit
from tests.bot.outward import until
from tests.bot.remedy_bot import APPROVERS, LONG, NODE, REASON, approved, asked, dialog, submitted
from tests.bot.slack_bot import answer, ask
from wire.orders import Action
from wire.remedies import OrderState

# --- from the button to done ----------------------------------------------------------------------------------------


async def test_a_restart_from_the_button_to_its_proof(bot, node, workspace, stall):
    who = await dialog(workspace, stall)
    first, second = who.modal.versions[0], who.modal.versions[-1]
    assert "One moment" in str(first)
    assert "PID 4321, the runner chat" in str(second)
    assert "Asked for as #2" in await submitted(workspace, who, REASON)
    await workspace.until(lambda: bot.cards("APPROVAL WANTED"), LONG)
    (card,) = bot.cards("APPROVAL WANTED")
    assert card.text.startswith("APPROVAL WANTED gpu-01 chat: restart of the runner\nFor <@U0ALICE> <@U0BOB> <@U0DAVE>")
    assert "it hangs since midnight" in card.text
    bot.carry()
    assert await approved(workspace, card) == "You approved it. Now: approved"
    await bot.until_state(State.ACCEPTED)
    (order,) = node.orders
    assert (order.action, order.approvers, order.verdict) == (Action.RESTART_RUNNER, ["U0BOB"], "stalled")
    assert [one.pid for one in order.processes] == [999, 4321]
    node.process, node.works = (5000, "900"), True
    node.says(OrderState.DONE)
    await bot.look(node)
    await bot.until_state(State.DONE)
    await workspace.until(lambda: card.text.startswith("DONE gpu-01 chat"), LONG)
    assert "Done: real work gets done, " in card.text
    assert '"actions"' not in str(card.blocks)
    await workspace.until(lambda: "(#2): done, and proved" in stall.text, LONG)
    assert await bot.audit() == [
        ("U0ALICE", "asked"),
        ("U0BOB", "approved"),
        ("", "sending"),
        ("", "accepted"),
        ("", "proof.restarted"),
        ("", "proof.works"),
        ("", "done"),
    ]
    head = await bot.store.read(audit.head)
    assert f"Record {head} " in card.text


async def test_a_restart_of_a_process_that_serves_another_runner_too_says_so_and_wants_that_accepted(
    bot, node, workspace, stall
):
    node.also = ["embed"]
    await bot.look(node)
    who = await dialog(workspace, stall)
    words = "Its process also serves embed, whose work ends with it"
    assert words in str(who.modal.blocks)
    assert await submitted(workspace, who, REASON) is None
    assert "Asked for as #2" in await submitted(workspace, who, {**REASON, "accepts": [words]})
    await workspace.until(lambda: bot.cards("APPROVAL WANTED"), LONG)
    (card,) = bot.cards("APPROVAL WANTED")
    assert "Accepted by the one who asked: its process also serves other runners" in card.text
    bot.carry()
    await approved(workspace, card)
    await bot.until_state(State.ACCEPTED)
    assert node.orders[0].accepted_blockers == ["shared_process"]


async def test_a_reboot_wants_the_nodes_name_and_names_everything_that_it_kills(bot, node, workspace, stall):
    text = await ask(workspace, "/gpu-reboot", NODE)
    assert text.startswith("Nothing happens before somebody fills in the dialog")
    who = workspace.person("alice")
    await workspace.until(lambda: who.modal and "One moment" not in str(who.modal.blocks), LONG)
    shown = str(who.modal.blocks)
    assert "The stall still holds by the node's latest look" in shown
    assert "GPU 0: PID 4321 of bob" in shown
    assert "GPU 1: PID 999 of alice" in shown
    wrong = {**REASON, "node_name": "gpu-02"}
    assert await submitted(workspace, who, wrong) is None
    assert "accepts" in who.modal.errors
    ticks = ["1 other processes will be killed"]
    assert await submitted(workspace, who, {**wrong, "accepts": ticks}) is None
    assert who.modal.errors == {"node_name": "This is not gpu-01"}
    assert "Asked for as #2" in await submitted(workspace, who, {**REASON, "node_name": NODE, "accepts": ticks})
    bot.carry()
    await workspace.until(lambda: bot.cards("APPROVAL WANTED"), LONG)
    (card,) = bot.cards("APPROVAL WANTED")
    assert "Accepted by the one who asked: processes on other GPUs will be killed" in card.text
    await approved(workspace, card)
    await bot.until_state(State.ACCEPTED)
    assert node.orders[0].accepted_blockers == ["gpu_works"]
    node.rebooted()
    node.gpus, node.works = 1, True
    await bot.look(node)
    await workspace.until(lambda: "1 of 2 GPUs are there" in card.text, LONG)
    node.gpus = 2
    await bot.look(node)
    await bot.until_state(State.DONE)


async def test_without_a_stall_the_card_says_that_there_is_no_evidence(bot, node, workspace):
    node.works, node.others = True, []
    await bot.look(node)
    await ask(workspace, "/gpu-reboot", NODE)
    who = workspace.person("alice")
    await workspace.until(lambda: who.modal and "No evidence of a stall" in str(who.modal.blocks), LONG)
    ticks = ["1 other processes will be killed"]
    assert "Asked for as #1" in await submitted(workspace, who, {**REASON, "node_name": NODE, "accepts": ticks})
    await workspace.until(lambda: bot.cards("APPROVAL WANTED gpu-01: reboot"), LONG)
    bot.carry()
    await approved(workspace, bot.cards("APPROVAL WANTED")[0])
    await bot.until_state(State.ACCEPTED)
    assert (node.orders[0].verdict, node.orders[0].runner) == ("none", None)
    node.rebooted()
    await bot.look(node)
    await bot.until_state(State.DONE)


async def test_a_short_reason_is_said_in_the_dialog(bot, node, workspace, stall):
    who = await dialog(workspace, stall)
    assert await submitted(workspace, who, {"reason": "stuck"}) is None
    assert await bot.request() is None


async def test_all_that_stands_in_the_way_is_listed_at_once(bot, node, workspace, stall):
    await bot.desk.stop_all("host:root", "maintenance")
    node.remedies["reboot_node"] = None
    await bot.look(node)
    await ask(workspace, "/gpu-reboot", NODE)
    who = workspace.person("alice")
    await workspace.until(lambda: who.modal and "Not possible now" in str(who.modal.blocks), LONG)
    shown = str(who.modal.blocks)
    assert "All remedies are stopped by host:root: maintenance" in shown
    assert "own config does not allow a reboot" in shown
    assert who.modal.body.get("submit") is None


async def test_what_got_in_the_way_while_the_dialog_was_open_is_told_when_it_is_sent(bot, node, workspace, stall):
    who = await dialog(workspace, stall)
    await bot.desk.stop_all("host:root", "maintenance")
    assert "All remedies are stopped" in await submitted(workspace, who, REASON)
    assert await bot.request() is None
    assert ("U0ALICE", "asked for restart_runner: blocked") in await bot.audit()


async def test_a_second_request_for_the_same_node_is_told_of_the_first(bot, node, workspace, stall):
    await asked(bot, workspace, stall)
    who = await dialog(workspace, stall, person="bob")
    assert "Another remedy of this node is under way" in str(who.modal.blocks)


async def test_a_node_that_offers_nothing_has_a_card_without_these_buttons(bot, node, workspace):
    node.remedies = {}
    await bot.look(node, 3)
    await workspace.until(lambda: bot.cards("STALL"), LONG)
    assert "restart_runner" not in str(bot.cards("STALL")[0].blocks)


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "said"),
    [
        ("carol", "Only <@U0ALICE> <@U0BOB> <@U0DAVE> can approve this. Your click was recorded, and changed nothing"),
        ("dave", "Guests cannot approve. Your click was recorded, and changed nothing"),
    ],
)
async def test_who_may_not_approve_is_told_and_recorded(bot, node, workspace, stall, person, said):
    card = await asked(bot, workspace, stall)
    assert await approved(workspace, card, person) == said
    assert await bot.state() is State.ASKED
    assert (await bot.audit())[-1] == (f"U0{person.upper()}", "remedy_approve: refused")


async def test_somebody_of_another_team_changes_nothing(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    workspace.channel("gpu-oncall").members.append("U0ERIN")
    assert (await approved(workspace, card, "erin")).startswith("Only members of the workspace")
    assert await bot.state() is State.ASKED
    assert ("U0ERIN", "remedy_approve: refused") in await bot.audit()


class TestTwoApprovers:
    @pytest.fixture
    def group(self):
        return Group("default", ["*"], approvers=APPROVERS, approvals=2)

    async def test_the_one_who_asked_does_not_count(self, bot, node, workspace, stall):
        card = await asked(bot, workspace, stall, person="alice")
        assert (await approved(workspace, card, "alice")).startswith("You asked for this yourself")
        assert (await approved(workspace, card, "bob")).startswith("You approved it. Now: an approval is wanted")
        await workspace.until(lambda: "Approvals that are missing: 1" in card.text, LONG)
        assert (await approved(workspace, card, "bob")).startswith("You approved this already")
        assert await bot.state() is State.ASKED


class TestUserGroup:
    @pytest.fixture
    def group(self):
        return Group("default", ["*"], approvers=Approvers(user_group="S0ONCALL"))

    async def test_the_members_of_the_group_may(self, bot, node, workspace, stall):
        card = await asked(bot, workspace, stall)
        assert (await approved(workspace, card, "bob")).startswith("Only <@U0CAROL> can approve this")
        assert (await approved(workspace, card, "carol")).startswith("You approved it")

    async def test_a_group_that_cannot_be_read_lets_nobody_approve(self, bot, node, workspace, stall):
        workspace.faults.refuse("usergroups.users.list", "missing_scope", times=None)
        card = await asked(bot, workspace, stall)
        assert (await approved(workspace, card, "carol")).startswith("Who may approve cannot be told now")
        assert await bot.state() is State.ASKED


# --- old cards, two clicks, no time left ------------------------------------------------------------------------------


async def test_of_two_clicks_at_once_one_wins_and_the_other_is_told(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    said = await asyncio.gather(approved(workspace, card, "alice"), approved(workspace, card, "bob"))
    assert sorted(one.split(".")[0] for one in said) == [
        "This button is older than the last decision",
        "You approved it",
    ]
    incident = await bot.request()
    assert len(incident.remedy.approvals) == 1


async def test_a_click_on_an_old_drawing_decides_nothing(bot, node, workspace, stall):
    card = await asked(bot, workspace, stall)
    await answer(workspace, await workspace.person("bob").press(card, "Deny"))
    assert (await approved(workspace, card, "alice", version=0)).startswith("This request is decided already: denied")
    assert await bot.state() is State.DENIED


class TestExpiry:
    @pytest.fixture
    def times(self):
        return Times(approval=timedelta(seconds=5))

    async def test_a_click_after_the_time_is_over_does_nothing(self, bot, node, workspace, stall):
        card = await asked(bot, workspace, stall)
        expires_at = (await bot.request()).remedy.expires_at
        await until(lambda: asyncio.sleep(0, clock.now() > expires_at), LONG)
        assert (await approved(workspace, card)).startswith(
            "This request is decided already: not done: nobody approved"
        )
        assert await bot.state() is State.EXPIRED
        assert node.orders == []
