"""People at a real Slack workspace on loopback ask about runners, and press on the card of one that is stalled."""

from datetime import timedelta

import pytest

from bot import clock
from tests.bot.outward import sent
from tests.bot.slack_bot import answer, ask
from tests.build import FIRST_WINDOW, START, heartbeat, observation
from tests.build_ticks import LATER, hung, tick
from wire.messages import Verdict

NODE = "gpu-01"
LOOKS = [hung(at_minutes=m, minutes=15 + m) for m in (0, 0.5, 1, 1.5, 2, 2.5, 3)]


async def heard(bot, *ticks):
    for one in ticks:
        bot.fleet.heard(heartbeat(FIRST_WINDOW, [], node=NODE, runners=[one], sent_at=clock.now()))
        await bot.advance.look_around()


@pytest.fixture
async def card(bot, workspace):
    """Seven looks, of which the last ones confirm a stall; they are in the record, too."""
    closed_at = START + LATER + timedelta(minutes=5)
    began_at = closed_at - timedelta(minutes=5)
    await bot.report(observation(FIRST_WINDOW, [Verdict.HELD], ticks=LOOKS, started_at=began_at, closed_at=closed_at))
    await heard(bot, *LOOKS)
    await sent(bot)
    (card,) = workspace.channel("gpu-oncall").cards
    return card


async def test_the_card_and_its_evidence(bot, workspace, card):
    assert card.text.startswith("STALL gpu-01 chat: 0 results for 17 min, 12 waiting")
    seen = await workspace.person("bob").choose(card, "card_menu", "Evidence")
    text = await answer(workspace, seen)
    assert text.startswith("*gpu-01 chat* · vllm · what can be seen of it: its finer progress")
    assert "*Now: stalled* (seen <!date^" in text
    assert text.count("suspect: somebody waits and nothing moves · 0 results for") == 4
    assert text.count(" · stalled · 0 results for") == 3


async def test_not_a_stall_is_shown_with_the_reason_and_closes_by_itself(bot, workspace, card):
    alice = workspace.person("alice")
    assert (await alice.choose(card, "card_menu", "Not a stall…")).acked
    await workspace.until(lambda: alice.modal and alice.modal.callback_id == "not_a_stall")
    await alice.submit({"reason": "a very long batch"})
    await workspace.until(lambda: "<@U0ALICE> says that it works, <!date^" in card.text)
    assert "a very long batch" in card.text
    await heard(bot, tick(at_minutes=4, has_moved=True))
    await workspace.until(lambda: card.text.startswith("RECOVERED gpu-01 chat"))
    assert "What ended it: work moves again" in card.text


async def test_status_has_a_line_for_each_runner_of_the_node(bot, workspace, card):
    text = await ask(workspace, "/gpu-status", NODE)
    assert "Runner chat: *stalled* · process ok · API ok in 4 ms · 0 results for 18 min, 12 waiting" in text


@pytest.mark.parametrize("words", ["gpu-01 chat", "gpu-01 runner chat", "gpu-01 chat now"])
async def test_why_answers_for_a_runner_by_its_name(bot, workspace, card, words):
    assert "*Now: stalled*" in await ask(workspace, "/gpu-why", words)


async def test_why_answers_for_a_time_in_the_past(bot, workspace, card):
    at = START + LATER + timedelta(minutes=1)
    text = await ask(workspace, "/gpu-why", f"gpu-01 chat {at:%Y-%m-%dT%H:%M}")
    assert ": suspect: somebody waits and nothing moves*" in text
    before = at - timedelta(minutes=20)
    assert "No look at it is recorded" in await ask(workspace, "/gpu-why", f"gpu-01 chat {before:%Y-%m-%dT%H:%M}")


async def test_a_name_that_is_none_is_told(bot, workspace, card):
    assert (await ask(workspace, "/gpu-why", "gpu-01 chta")).startswith("gpu-01 has no GPU and no runner `chta`")
