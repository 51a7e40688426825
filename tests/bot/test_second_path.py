"""While Slack is away, or takes nothing: the second path, and what is said when it is back."""

import asyncio
import json
import logging
from datetime import timedelta

import pytest
from aiohttp import web
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance
from bot.fallback import Fallback
from bot.groups import Group
from bot.notify import DeliveryKind
from bot.outbox.second_path import SecondPath
from bot.render.words import words
from bot.slack.queries import Queries
from bot.store.outbox import RowState
from demo.machine import free_ports
from tests.bot.outward import GONE, Bot, no_row, nothing_red, sent, titles, told, until


@pytest.fixture
def bot(outbox_bot):
    return outbox_bot


def soon_long(bot):
    """An outage counts as long after a moment."""
    bot.outbox._settings = replace(bot.outbox._settings, long_outage=timedelta(seconds=0.2))


# --- Slack is away --------------------------------------------------------------------------------------------------


class Pager:
    """What arrives by the second path."""

    def __init__(self):
        self.messages, self.status = [], 200
        (self.port,) = free_ports(1)

    async def serve(self, request):
        if self.status == 200:
            self.messages.append(json.loads(await request.text()))
        return web.Response(status=self.status)

    @property
    def titles(self):
        return [one["title"] for one in self.messages]


@pytest.fixture
async def pager(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pager = Pager()
    app = web.Application()
    app.router.add_post("/{tail:.*}", pager.serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", pager.port).start()
    yield pager
    await runner.cleanup()


@pytest.fixture
def second(bot, pager):
    fallback = Fallback([f"json://127.0.0.1:{pager.port}/"])
    card = Queries(bot.store, bot.fleet, bot.advance, words("en")).card
    return SecondPath(bot.store, fallback, bot.outbox.troubles, words("en"), card, timedelta(seconds=0.2))


async def in_an_outage(bot, workspace):
    """One card was posted before it, and one problem began in it."""
    soon_long(bot)
    bot.start()
    await bot.found(subject="gpu-01/before")
    await sent(bot)
    await workspace.stop_listening()
    await bot.found(subject="gpu-02/lasts")


async def test_an_outage_tells_critical_cards_by_the_second_path_and_ends_in_one_notice_without_replay(
    bot, workspace, home, candidates, pager, second
):
    await in_an_outage(bot, workspace)
    await bot.found(subject="gpu-03/passes")
    await bot.found(subject="gpu-01/before", what="down")
    await bot.idle()
    await asyncio.sleep(0.3)
    for _ in range(3):  # each is told once
        await second.turn()
    assert len(pager.titles) == 2
    assert all(title.startswith("Slack unavailable: ") for title in pager.titles)
    assert [("gpu-02 lasts" in title, "gpu-03 passes" in title) for title in pager.titles] == [
        (True, False),
        (False, True),
    ]
    await bot.found(GONE, subject="gpu-03/passes")
    await second.turn()
    await second.turn()
    assert len(pager.titles) == 3
    assert "gpu-03 passes" in pager.titles[2]
    await until(lambda: told(bot, "slack"))
    await workspace.listen()
    await until(lambda: no_row(bot, (RowState.WAITING, RowState.SENDING)), 20)
    notices = [card for card in home.cards if card.text.startswith("*Slack took no messages*")]
    assert len(notices) == 1
    assert "3 problems began and 1 ended; 3 are open now" in notices[0].text
    assert sorted(title.split(" ")[1] for title in titles(home) if "gpu-" in title) == ["gpu-01", "gpu-02"]
    assert [one.text for one in home.replies(home.cards[0])] == []
    assert len(candidates.cards) == 1
    await until(lambda: nothing_red(bot))


async def test_whoever_was_to_be_told_again_during_an_outage_is_told_when_it_is_over(
    store, fleet, settings, workspace, home
):
    groups = [Group("default", ["*"], on_call=["U0ALICE"])]
    advance = Advance(store, fleet, replace(settings, groups=groups, again_after=timedelta(0)))
    bot = Bot(store, fleet, advance, workspace)
    await in_an_outage(bot, workspace)
    await until(lambda: told(bot, "slack"))
    await advance.look_around()
    await asyncio.sleep(0.3)  # until it is a long one
    await workspace.listen()
    await until(lambda: no_row(bot), 20)
    await advance.look_around()
    await workspace.until(lambda: home.replies(home.cards[0]), 20)
    assert "<@U0ALICE>" in home.replies(home.cards[0])[0].text
    await bot.stop()


async def test_an_outage_goes_on_over_a_start_of_the_bot(bot, workspace, home, store, fleet, advance):
    bot.start()
    await workspace.stop_listening()
    await bot.found()
    await until(lambda: told(bot, "slack"))
    await bot.stop()
    await asyncio.sleep(0.3)  # until it is a long one
    again = Bot(store, fleet, advance, workspace)
    soon_long(again)
    await workspace.listen()
    again.start()
    await sent(again)
    await again.stop()
    assert sum(card.text.startswith("*Slack took no messages*") for card in home.cards) == 1


async def test_a_short_outage_is_no_word_worth(store, fleet, advance, workspace, home):
    bot = Bot(store, fleet, advance, workspace)
    workspace.faults.drop("chat.postMessage")
    bot.start()
    await bot.found()
    await sent(bot)
    await bot.stop()
    assert len(home.cards) == 1


async def test_a_second_path_that_does_not_work_is_said_once_and_tried_again(bot, workspace, pager, second, caplog):
    caplog.set_level(logging.INFO, "bot.fallback")
    pager.status = 500
    await bot.found()
    await asyncio.sleep(0.3)
    assert [await second.turn(), await second.turn()] == [60.0, 60.0]
    pager.status = 200
    await second.turn()
    await second.turn()
    assert len(pager.messages) == 1
    said = [record.message.split(";")[0] for record in caplog.records if record.name == "bot.fallback"]
    assert said == ["The second path does not work", "The second path works again"]


async def test_where_even_the_home_channel_takes_nothing_cards_wait_and_critical_ones_go_the_second_path(
    bot, workspace, home, pager, second
):
    home.is_archived = True
    bot.start()
    await bot.found()
    await until(lambda: told(bot, home.id))
    await asyncio.sleep(0.3)
    await second.turn()
    assert len(pager.titles) == 1
    assert len(workspace.calls_of("chat.postMessage")) == 1
    (row,) = await bot.rows()
    assert row.not_before - clock.now() > timedelta(seconds=200)


@pytest.mark.parametrize(
    ("take_away", "kind"),
    [
        (lambda workspace: setattr(workspace, "token_revoked", True), DeliveryKind.TOKEN),
        (lambda workspace: workspace.scopes.discard("chat:write"), DeliveryKind.SCOPE),
    ],
)
async def test_without_token_or_scope_sending_stops_and_critical_cards_go_the_second_path_at_once(
    bot, workspace, home, pager, second, caplog, take_away, kind
):
    take_away(workspace)
    second._after = timedelta(minutes=2)
    bot.start()
    await bot.found()
    await until(lambda: told(bot, "slack"))
    assert bot.outbox.troubles.kind_of("slack") is kind
    await second.turn()
    assert len(pager.titles) == 1
    assert len(workspace.calls_of("chat.postMessage")) <= 1  # none where the start has found it out
    assert workspace.bot_token not in caplog.text
