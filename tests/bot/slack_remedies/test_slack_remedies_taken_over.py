"""Somebody takes care of a stall while a policy counts down, or right before its order: then nothing is done."""

from datetime import timedelta

import pytest

from bot import clock
from bot.advance import Click
from bot.groups import Group
from bot.incident import Acknowledged, NotAStall, Snoozed
from bot.remedy.model import Counted, State, Times
from tests.bot.remedy_bot import APPROVERS, LONG
from tests.bot.slack_bot import answer
from wire.remedies import AutoRemedy

TAKES_OVER = {
    "acknowledge": lambda: Acknowledged("U0ALICE"),
    "not_a_stall": lambda: NotAStall("U0ALICE", "it thinks"),
    "snooze": lambda: Snoozed("U0ALICE", clock.now() + timedelta(hours=1), "I look at it"),
}


@pytest.fixture
def group():
    return Group("default", ["*"], approvers=APPROVERS, auto_remedy="restart_then_reboot")


@pytest.fixture
def times():
    return Times(countdown=timedelta(0))


@pytest.fixture
async def counted(bot, node, workspace):
    """A countdown that is held, on its card."""
    bot.can_press = False
    node.remedies["auto_remedy"], node.others = AutoRemedy.RESTART_THEN_REBOOT, []
    await bot.look(node, 3)
    await bot.carry_out.turn(can_press=False)
    await workspace.until(lambda: bot.cards("COUNTDOWN"), LONG)
    return await bot.request()


async def take_over(bot, how, about):
    await bot.advance.command(about, Click("", how, "U0ALICE", "T0GPUTEAM"), TAKES_OVER[how]())


async def nothing_was_sent(bot, node):
    """Also later nothing begins."""
    for _ in range(3):
        await bot.look(node)
        await bot.carry_out.turn(can_press=True)
    ended = (await bot.request()).remedy
    assert (ended.state, [one.key for one in ended.because]) == (State.VOID, ["blocker.person"])
    assert node.orders == []


@pytest.mark.parametrize("how", TAKES_OVER)
async def test_whoever_takes_care_of_the_stall_during_the_countdown_ends_it(bot, node, counted, how):
    await take_over(bot, how, counted.remedy.about)
    await nothing_was_sent(bot, node)


@pytest.mark.parametrize("how", TAKES_OVER)
async def test_whoever_takes_care_of_it_between_the_countdown_and_the_order_ends_it(bot, node, counted, how):
    for _ in range(2):
        after = await bot.advance.remedies.move(counted.id, Counted(runs=True))
    assert after.remedy.state is State.APPROVED
    await take_over(bot, how, counted.remedy.about)
    bot.carry()
    await bot.until_state(State.VOID)
    await nothing_was_sent(bot, node)


async def test_stop_between_the_countdown_and_the_order_still_stops_it(bot, node, counted, workspace):
    """The press was on its way when the countdown ended."""
    card = bot.cards("COUNTDOWN")[-1]
    for _ in range(2):
        await bot.advance.remedies.move(counted.id, Counted(runs=True))
    said = await answer(workspace, await workspace.person("carol").press(card, "Stop", version=0))
    assert said == "You stopped it. Nothing is done"
    bot.carry()
    await bot.until_state(State.STOPPED)
    assert node.orders == []


async def test_whoever_stops_all_remedies_is_told_of_the_order_that_has_left_already(bot, node, counted):
    bot.can_press = True
    bot.carry()
    await bot.until_state(State.ACCEPTED)
    said = (await bot.commands.remedying.stop_all("host:root", "no")).text
    assert "All remedies are stopped from now on, and 0 that waited" in said
    assert "1 order has left already, and nobody can call it back" in said
