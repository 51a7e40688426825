"""Remedies as people meet them: a real Slack workspace on loopback, a real bus, a node that does as the test says."""

import asyncio
from datetime import timedelta

import pytest

from bot import clock
from bot.act.desk import Wish
from bot.advance import AdvanceSettings, Click
from bot.advance.remedies import Ask
from bot.groups import Approvers, Group
from bot.incident import Acknowledged, Kind, QuietWhy
from bot.order_key import public_order_key
from bot.remedy.approvers import Approvers as ListOfNow
from bot.remedy.model import State, Times
from bot.speak import can_press
from bot.store import audit
from demo.workspace import Workspace
from tests.bot.build_incidents import finding
from tests.bot.outward import until
from tests.bot.remedy_bot import NODE, Node, RemedyBot
from tests.bot.slack_bot import answer, ask
from tests.nats_server import NatsServer
from wire.orders import Action
from wire.remedies import AutoRemedy, OrderState, Refusal

LONG = 30.0
REASON = {"reason": "it hangs since midnight"}
APPROVERS = Approvers(users=["U0ALICE", "U0BOB", "U0DAVE"])


@pytest.fixture
async def workspace():
    async with Workspace(rate_limits=False) as workspace:
        yield workspace


@pytest.fixture
def group():
    return Group("default", ["*"], approvers=APPROVERS)


@pytest.fixture
def times():
    return Times()


@pytest.fixture
def settings(group, times):
    return AdvanceSettings(timedelta(0), timedelta(0), False, groups=[group], times=times)


@pytest.fixture
async def bus(tmp_path):
    server = NatsServer(tmp_path / "nats", [NODE])
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def bot(store, fleet, advance, workspace, bus, tmp_path):
    await advance.start()
    async with bus.bot() as link:
        bot = RemedyBot(store, fleet, advance, workspace, link, tmp_path)
        bot.start()
        await workspace.until_connected(sockets=2)
        yield bot
        await bot.stop()


@pytest.fixture
async def node(bot, bus, fleet, tmp_path):
    link = bus.node_link(NODE)
    await link.start()
    await asyncio.wait_for(link.wait_connected(), LONG)
    node = Node(link, fleet, public_order_key(tmp_path))
    await node.listen()
    yield node
    await link.close()


@pytest.fixture
async def stall(bot, node, workspace):
    """The card of the stalled runner, which offers what the node offers."""
    await bot.look(node, 3)
    await workspace.until(lambda: bot.cards("STALL") and "restart_runner" in str(bot.cards("STALL")[0].blocks), LONG)
    return bot.cards("STALL")[0]


async def dialog(workspace, card, entry="Restart runner…", person="alice"):
    """Opened and filled in."""
    who = workspace.person(person)
    seen = await who.choose(card, "card_menu", entry)
    assert seen.acked, seen.failure
    await workspace.until(lambda: who.modal and "One moment" not in str(who.modal.blocks), LONG)
    return who


async def submitted(workspace, who, values):
    """What the dialog then says, or None where it shows what is wrong."""
    seen = await who.submit(values)
    if seen.failure or who.modal is None or who.modal.errors:
        return None
    await workspace.until(lambda: who.modal and "One moment" not in str(who.modal.blocks), LONG)
    return str(who.modal.blocks)


async def asked(bot, workspace, card, person="alice", entry="Restart runner…", **more):
    """The approval card."""
    who = await dialog(workspace, card, entry, person)
    assert "Asked for as #" in await submitted(workspace, who, {**REASON, **more})
    await who.close_modal()
    await workspace.until(lambda: bot.cards("APPROVAL WANTED"), LONG)
    return bot.cards("APPROVAL WANTED")[-1]


async def approved(workspace, card, person="bob", version=-1):
    seen = await workspace.person(person).press(card, "Approve", confirm=True, version=version)
    return await answer(workspace, seen)


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
        return Times(approval=timedelta(seconds=1))

    async def test_a_click_after_the_time_is_over_does_nothing(self, bot, node, workspace, stall):
        card = await asked(bot, workspace, stall)
        expires_at = (await bot.request()).remedy.expires_at
        await until(lambda: asyncio.sleep(0, clock.now() > expires_at), LONG)
        assert (await approved(workspace, card)).startswith(
            "This request is decided already: not done: nobody approved"
        )
        assert await bot.state() is State.EXPIRED
        assert node.orders == []


# --- the order --------------------------------------------------------------------------------------------------------


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


# --- policies ---------------------------------------------------------------------------------------------------------


class TestPolicy:
    """Both configs allow it; the countdown is short."""

    @pytest.fixture
    def group(self):
        return Group("default", ["*"], approvers=APPROVERS, auto_remedy="restart_then_reboot")

    @pytest.fixture
    def times(self):
        return Times(countdown=timedelta(seconds=1))

    @pytest.fixture
    async def policed(self, bot, node):
        node.remedies["auto_remedy"], node.remedies["policy_line"] = AutoRemedy.RESTART_THEN_REBOOT, "auto_remedy: both"
        node.others = []
        await bot.look(node, 3)
        return node

    async def counted(self, bot, workspace):
        await workspace.until(lambda: bot.cards("COUNTDOWN"), LONG)
        return bot.cards("COUNTDOWN")[-1]

    async def test_nobody_presses_and_the_runner_is_restarted(self, bot, policed, workspace):
        bot.carry()
        card = await self.counted(bot, workspace)
        assert "bot.groups default: auto_remedy: restart_then_reboot; on the node: auto_remedy: both" in card.text
        await bot.until_state(State.ACCEPTED)
        (order,) = policed.orders
        assert (order.action, order.approvers) == (Action.RESTART_RUNNER, [])
        assert order.policy.startswith("bot.groups default: auto_remedy")

    async def test_after_a_restart_that_did_not_help_comes_a_reboot_and_then_no_more(self, bot, policed, workspace):
        bot.carry()
        await bot.until_state(State.ACCEPTED)
        policed.says(OrderState.FAILED, "command ended with status 1")
        await bot.look(policed)
        await bot.until_state(State.FAILED)
        await bot.look(policed)
        await workspace.until(lambda: bot.cards("COUNTDOWN gpu-01 chat: reboot of the node"), LONG)
        await bot.until_state(State.ACCEPTED)
        assert [order.action for order in policed.orders] == [Action.RESTART_RUNNER, Action.REBOOT_NODE]
        policed.says(OrderState.FAILED, "no")
        await bot.look(policed)
        await bot.until_state(State.FAILED)
        for _ in range(3):
            await bot.look(policed)
            await bot.carry_out.turn(can_press=True)
        assert len(policed.orders) == 2

    async def test_while_no_click_could_arrive_there_is_no_countdown_and_it_begins_anew(self, bot, policed, workspace):
        bot.can_press = False
        bot.carry()
        card = await self.counted(bot, workspace)
        await workspace.until(lambda: "does not run" in card.text, LONG)
        bot.can_press = True
        await workspace.until(lambda: "unless somebody presses Stop" in card.text, LONG)
        await bot.until_state(State.ACCEPTED)

    async def test_stop_ends_it_and_the_policy_asks_no_more_for_this_stall(self, bot, policed, workspace):
        bot.can_press = False  # so that it is there to be pressed
        bot.carry()
        card = await self.counted(bot, workspace)
        assert await answer(workspace, await workspace.person("carol").press(card, "Stop")) == (
            "You stopped it. Nothing is done"
        )
        await bot.until_state(State.STOPPED)
        bot.can_press = True
        for _ in range(3):
            await bot.look(policed)
            await bot.carry_out.turn(can_press=True)
        assert (await bot.request()).remedy.state is State.STOPPED
        assert policed.orders == []

    async def test_stop_ends_the_countdown_of_the_reboot_that_follows_a_restart_too(self, bot, policed, workspace):
        bot.carry()
        await bot.until_state(State.ACCEPTED)
        policed.says(OrderState.FAILED, "command ended with status 1")
        bot.can_press = False  # so that the next one is there to be pressed
        await bot.look(policed)
        await bot.until_state(State.FAILED)
        await bot.look(policed)
        await workspace.until(lambda: bot.cards("COUNTDOWN gpu-01 chat: reboot of the node"), LONG)
        card = bot.cards("COUNTDOWN gpu-01 chat: reboot of the node")[-1]
        assert await answer(workspace, await workspace.person("carol").press(card, "Stop")) == (
            "You stopped it. Nothing is done"
        )
        await bot.until_state(State.STOPPED)
        bot.can_press = True
        for _ in range(3):
            await bot.look(policed)
            await bot.carry_out.turn(can_press=True)
        assert [order.action for order in policed.orders] == [Action.RESTART_RUNNER]

    async def test_stop_after_the_order_has_left_says_that_it_is_too_late(self, bot, policed, workspace):
        bot.can_press = False
        bot.carry()
        card = await self.counted(bot, workspace)
        bot.can_press = True
        await bot.until_state(State.ACCEPTED)
        said = await answer(workspace, await workspace.person("carol").press(card, "Stop", version=0))
        assert said.startswith("This button is older than the last decision")
        assert (await bot.request()).remedy.state is State.ACCEPTED

    async def test_somebody_who_acknowledged_the_stall_decides_by_themselves(self, bot, policed, workspace):
        (incident,) = bot.advance.open_incidents()
        await ask_to_acknowledge(bot, incident)
        await bot.carry_out.turn(can_press=True)
        assert await bot.request() is None

    async def test_a_stall_that_ends_during_the_countdown_ends_it(self, bot, policed, workspace):
        bot.can_press = False
        bot.carry()
        card = await self.counted(bot, workspace)
        policed.works = True
        await bot.look(policed, 3)
        await bot.until_state(State.VOID)
        await workspace.until(lambda: card.text.startswith("NOT DONE"), LONG)

    async def test_a_blocker_is_recorded_once_and_nothing_begins(self, bot, policed, workspace):
        await bot.desk.stop_all("host:root", "no")
        for _ in range(3):
            await bot.carry_out.turn(can_press=True)
        assert await bot.request() is None
        assert (await bot.audit()).count(("", "asked for restart_runner: blocked")) == 1

    @pytest.mark.parametrize("theirs", [AutoRemedy.OFF, AutoRemedy.UNKNOWN])
    async def test_the_nodes_own_config_must_say_so_too(self, bot, policed, workspace, theirs):
        policed.remedies["auto_remedy"] = theirs
        await bot.look(policed)
        await bot.carry_out.turn(can_press=True)
        assert await bot.request() is None


async def test_while_slack_is_away_no_press_can_arrive(bot, workspace):
    assert can_press(bot.sockets, bot.outbox)
    await workspace.stop_listening()
    await until(lambda: asyncio.sleep(0, not can_press(bot.sockets, bot.outbox)), LONG)
    await workspace.listen()
    await until(lambda: asyncio.sleep(0, can_press(bot.sockets, bot.outbox)), LONG * 2)


class TestPolicyOfTheNodeAlone:
    async def test_does_nothing(self, bot, node, stall):
        node.remedies["auto_remedy"] = AutoRemedy.RESTART_THEN_REBOOT
        await bot.look(node)
        await bot.carry_out.turn(can_press=True)
        assert await bot.request() is None


async def rebooting(bot):
    """Asked for, approved, and taken by the node."""
    planned = await bot.desk.planned(Wish(Action.REBOOT_NODE, NODE, "chat", 1), "U0ALICE")
    asked = await bot.desk.ask(Ask(planned.plan, "U0ALICE", "it hangs since midnight", ("gpu_works",), 1))
    assert asked.incident is not None, asked.blockers
    await bot.desk.approve(Click("", "remedy_approve", "U0BOB", ""), number=asked.incident.id)
    await bot.until_state(State.ACCEPTED)


async def ask_to_acknowledge(bot, incident):
    click = Click("", "acknowledge", "U0ALICE", "T0GPUTEAM")
    await bot.advance.command(incident.id, click, Acknowledged("U0ALICE"))
