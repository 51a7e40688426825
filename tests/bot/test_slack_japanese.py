"""A bot that speaks Japanese, from its card to its answers; nothing that it says is English."""

import re

import pytest

from tests.bot.outward import C, sent
from tests.bot.slack_bot import SlackBot, answer, ask, at_work

# What stays as it is: names, numbers with their units, commands, codes, models, times and people.
KEPT = re.compile(
    r"`[^`]*`|<[^>]*>|/gpu-[\w-]+|gpu-[\w-]+|GPU-[\w-]+|NVIDIA H100 80GB HBM3|python train\.py|tuning"
    r"|\b(GPU|PID|UUID|API|Slack|Slurm|MIG|[KMG]iB|B|h|min|s|kWh|share|mine|id|node|gpu|all|duration|reason|UTC|alice)\b"
)


@pytest.fixture
async def bot(store, fleet, advance, workspace):
    async with at_work(SlackBot(store, fleet, advance, workspace, language="ja"), workspace) as bot:
        yield bot


def assert_japanese(text):
    assert re.search(r"[぀-ヿ一-鿿]", text)
    assert re.findall(r"[A-Za-z]{2,}", KEPT.sub(" ", text)) == []


async def test_a_card_its_buttons_and_every_answer_are_japanese(bot, workspace):
    await bot.idle((C, C))
    await sent(bot)
    (card,) = workspace.channel("gpu-candidates").cards
    assert card.text.startswith("空きあり gpu-01: 空き 2 基")
    assert_japanese(card.text)
    alice = workspace.person("alice")
    assert await answer(workspace, await alice.press(card, "確認")) == "確認済みにしました。カードで全員に表示されます"
    await workspace.until(lambda: "確認済み: <@U0ALICE>" in card.text)
    for command, text in (
        ("/gpu-candidates", ""),
        ("/gpu-status", "gpu-01"),
        ("/gpu-why", "gpu-01 0"),
        ("/gpu-incidents", ""),
        ("/gpu-incidents", "1"),
        ("/gpu-report", ""),
        ("/gpu-claim", "gpu-01 1 4h tuning"),
        ("/gpu-claim", "gpu-99 1 4h"),
        ("/gpu-release", "gpu-01 1"),
        ("/gpu-snooze", "1 2h tuning"),
        ("/gpu-snooze", "1 off"),
    ):
        assert_japanese(await ask(workspace, command, text))
    await alice.open_home()
    await workspace.until(lambda: alice.home)
    assert "Slack への接続: 2 / 2" in str(alice.home.blocks)
