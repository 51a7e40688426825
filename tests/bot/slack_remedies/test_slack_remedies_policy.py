"""A policy that asks in place of a person: the countdown, Stop, and what keeps it from beginning."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.act.carry_out import CarryOut
from bot.advance import Advance, Click
from bot.fleet import Fleet
from bot.groups import Group
from bot.incident import Acknowledged
from bot.remedy.model import State, Times
from bot.speak import can_press
from tests.bot.outward import until
from tests.bot.remedy_bot import APPROVERS, LONG
from tests.bot.slack_bot import answer
from wire.orders import Action
from wire.remedies import AutoRemedy, OrderState


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

    async def counted(self, bot, workspace, beginning="COUNTDOWN"):
        await workspace.until(lambda: bot.cards(beginning), LONG)
        return bot.cards(beginning)[-1]

    async def stopped(self, bot, policed, workspace, card):
        """By a person; then the policy could ask again."""
        said = await answer(workspace, await workspace.person("carol").press(card, "Stop"))
        assert said == "You stopped it. Nothing is done"
        await bot.until_state(State.STOPPED)
        bot.can_press = True
        await self.could_ask_again(bot, policed)

    async def could_ask_again(self, bot, policed):
        for _ in range(3):
            await bot.look(policed)
            await bot.carry_out.turn(can_press=True)

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
        await self.counted(bot, workspace, "COUNTDOWN gpu-01 chat: reboot of the node")
        await bot.until_state(State.ACCEPTED)
        assert [order.action for order in policed.orders] == [Action.RESTART_RUNNER, Action.REBOOT_NODE]
        policed.says(OrderState.FAILED, "no")
        await bot.look(policed)
        await bot.until_state(State.FAILED)
        await self.could_ask_again(bot, policed)
        assert len(policed.orders) == 2

    async def test_while_no_click_could_arrive_there_is_no_countdown_and_it_begins_anew(self, bot, policed, workspace):
        bot.can_press = False
        bot.carry()
        card = await self.counted(bot, workspace)
        await workspace.until(lambda: "does not run" in card.text, LONG)
        assert "countdown_runs" not in [what for _, what in await bot.audit()]
        bot.can_press = True
        await bot.until_state(State.ACCEPTED)
        assert "countdown_runs" in [what for _, what in await bot.audit()]

    async def test_stop_ends_it_and_the_policy_asks_no_more_for_this_stall(self, bot, policed, workspace):
        bot.can_press = False  # so that it is there to be pressed
        bot.carry()
        card = await self.counted(bot, workspace)
        await self.stopped(bot, policed, workspace, card)
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
        card = await self.counted(bot, workspace, "COUNTDOWN gpu-01 chat: reboot of the node")
        await self.stopped(bot, policed, workspace, card)
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

    async def test_a_countdown_ends_at_once_when_the_nodes_config_takes_the_policy_back(self, bot, policed, workspace):
        bot.can_press = False
        bot.carry()
        card = await self.counted(bot, workspace)
        policed.remedies["auto_remedy"] = AutoRemedy.OFF
        await bot.look(policed)
        request = (await bot.until_state(State.VOID)).remedy
        assert [one.key for one in request.because] == ["blocker.policy"]
        await workspace.until(lambda: card.text.startswith("NOT DONE"), LONG)

    async def test_and_when_the_bot_is_started_with_a_config_without_it_as_soon_as_the_node_is_heard(
        self, bot, policed, workspace, settings, group
    ):
        await bot.carry_out.turn(can_press=False)
        assert await bot.state() is State.COUNTING
        changed = replace(settings, groups=[replace(group, auto_remedy="off")])
        policed.fleet = Fleet(bot.fleet.rule, bot.fleet.tracks)
        second = Advance(bot.store, policed.fleet, changed)
        await second.start()
        carry_out = CarryOut(bot.store, policed.fleet, second, policed.link, bot.lists, bot.folder)
        await carry_out.turn(can_press=True)
        assert await bot.state() is State.COUNTING
        policed.beat()
        await carry_out.turn(can_press=True)
        assert await bot.state() is State.VOID

    async def test_a_process_that_serves_another_runner_too_is_left_alone(self, bot, policed, workspace):
        policed.also = ["embed"]
        await bot.look(policed)
        await bot.carry_out.turn(can_press=True)
        assert await bot.request() is None

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


class TestPolicyOfTenMinutes:
    @pytest.fixture
    def group(self):
        return Group("default", ["*"], approvers=APPROVERS, auto_remedy="restart")

    @pytest.mark.parametrize("by", [timedelta(minutes=30), timedelta(hours=-9)])
    async def test_counts_anew_where_the_bots_host_slept_or_its_clock_was_set(
        self, bot, node, workspace, monkeypatch, by
    ):
        """A clock that is as wrong as a zone after the boot, and set right then; a host that slept wakes ahead."""
        node.remedies["auto_remedy"] = AutoRemedy.RESTART
        await bot.look(node, 3)
        bot.carry()
        await workspace.until(lambda: bot.cards("COUNTDOWN") and "presses Stop" in bot.cards("COUNTDOWN")[0].text, LONG)
        now = clock.now
        began_at = (await bot.request()).remedy.counting_since
        monkeypatch.setattr(clock, "now", lambda: now() + by)

        async def counts_anew():
            request = (await bot.request()).remedy
            return request.state is not State.COUNTING or request.counting_since not in (began_at, None)

        await until(counts_anew, LONG)
        request = (await bot.request()).remedy
        assert (request.state, node.orders) == (State.COUNTING, [])
        assert abs(request.counting_since - clock.now()) < timedelta(minutes=5)


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


async def ask_to_acknowledge(bot, incident):
    click = Click("", "acknowledge", "U0ALICE", "T0GPUTEAM")
    await bot.advance.command(incident.id, click, Acknowledged("U0ALICE"))
