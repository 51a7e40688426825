"""When things go wrong: what Slack does, a row each, and what then comes to people."""

import asyncio
import json
import logging
from datetime import timedelta

import pytest
import sqlalchemy as sa
from aiohttp import web
from msgspec.structs import replace

from bot import clock
from bot.fallback import Fallback
from bot.incident import Kind
from bot.judge.verdict import Presence
from bot.notify import DeliveryError, DeliveryKind
from bot.outbox.second_path import SecondPath
from bot.render.words import words
from bot.slack.queries import Queries
from bot.store import schema
from bot.store.outbox import RowKind, RowState
from demo.machine import free_ports
from demo.workspace import Workspace
from tests.bot.outward import Bot, C, H, sent, until

GONE = Presence.ABSENT


@pytest.fixture
async def workspace():
    async with Workspace(rate_limits=False) as workspace:
        yield workspace


@pytest.fixture
def home(workspace):
    """Where cards of runners go, and notices."""
    return workspace.channel("gpu-oncall")


@pytest.fixture
def candidates(workspace):
    return workspace.channel("gpu-candidates")


@pytest.fixture
async def bot(store, fleet, advance, workspace):
    bot = Bot(store, fleet, advance, workspace)
    yield bot
    await bot.stop()


def soon_long(bot):
    """An outage counts as long after a moment."""
    bot.outbox._settings = replace(bot.outbox._settings, long_outage=timedelta(seconds=0.2))


def titles(channel):
    return [card.text.split("\n")[0] for card in channel.cards]


async def late_by(bot, length):
    """What waits was wanted so long ago."""
    values = {"wanted_at": clock.now() - length}
    await bot.store.write(lambda transaction: transaction.connection.execute(sa.update(schema.outbox).values(**values)))


# --- 429 ------------------------------------------------------------------------------------------------------------


async def test_what_waits_leaves_by_urgency_not_by_age(bot, workspace, home, candidates):
    bot.start()
    await bot.found(subject="gpu-01/old")
    await sent(bot)
    await bot.stop()
    await bot.idle()
    await bot.found(GONE, subject="gpu-01/old")
    await bot.found(subject="gpu-01/new")
    before = len(workspace.calls)
    bot.start()
    await sent(bot)
    await sent(bot, RowKind.THREAD)
    left = [call for call in workspace.calls[before:] if call.method.startswith("chat.")]
    assert [(call.method, call.arguments["text"].split("\n")[0]) for call in left] == [
        ("chat.postMessage", titles(home)[1]),
        ("chat.update", titles(home)[0]),
        ("chat.postMessage", "Recovered"),
        ("chat.postMessage", "FREE gpu-01: 1 GPU free"),
    ]


async def test_edits_that_a_rate_limit_held_up_are_one_edit(bot, workspace, candidates):
    bot.start()
    await bot.idle((C, C, C))
    await sent(bot)
    workspace.faults.rate_limited("chat.update", retry_after=1)
    for verdicts in ((C, C, H), (C, H, H), (H, H, H)):
        await bot.sample(verdicts)
        await workspace.until(lambda: workspace.calls_of("chat.update"))
    await sent(bot)
    outcomes = [call.outcome for call in workspace.calls_of("chat.update")]
    assert outcomes == ["ratelimited", "ok"]
    assert titles(candidates) == ["OVER gpu-01: 3 no longer free"]


async def test_our_own_pace_keeps_posts_and_edits_below_slacks_limits(store, fleet, advance):
    async with Workspace(rate_limits=True) as workspace:
        bot = Bot(store, fleet, advance, workspace)
        bot.outbox.delivery.paces = type(bot.outbox.delivery.paces)(type(bot.outbox._settings)({}, 0, "").paces)
        bot.start()
        for number in range(7):
            await bot.found(subject=f"gpu-{number:02}/chat")
        await workspace.until(lambda: len(workspace.channel("gpu-oncall").cards) == 7, 15)
        await bot.stop()
    assert {call.outcome for call in workspace.calls_of("chat.postMessage")} == {"ok"}


async def test_a_card_that_comes_late_says_so_and_goes_on_saying_it(bot, workspace, home):
    await bot.found()
    await late_by(bot, timedelta(minutes=5))
    bot.start()
    await sent(bot)
    assert "Posted 5 min late" in home.cards[0].text
    await bot.found(what="down")
    await workspace.until(lambda: home.cards[0].edits == 1)
    assert "Posted 5 min late" in home.cards[0].text
    assert "This change comes" not in home.cards[0].text


async def test_a_change_that_comes_late_says_so_and_the_next_one_does_not(bot, workspace, home):
    bot.start()
    await bot.found()
    await sent(bot)
    await bot.stop()
    await bot.found(what="down")
    await late_by(bot, timedelta(minutes=2))
    bot.start()
    await workspace.until(lambda: "This change comes 2 min late" in home.cards[0].text)
    await sent(bot)
    await bot.found(GONE)
    await workspace.until(lambda: home.cards[0].edits == 2)
    assert "late" not in home.cards[0].text


# --- a reply that is lost -------------------------------------------------------------------------------------------


async def test_possibly_posted_twice_stays_on_the_card_at_the_next_edit_and_after_a_start(bot, workspace, home):
    workspace.scopes.discard("channels:history")
    workspace.faults.lose_reply("chat.postMessage")
    bot.start()
    await bot.found()
    await sent(bot)
    await bot.stop()
    await bot.found(GONE)
    bot.start()
    await workspace.until(lambda: home.cards[1].edits == 1)
    assert ["Possibly posted twice" in card.text for card in home.cards] == [False, True]


@pytest.mark.parametrize("fault", ["server_error", "drop", "lose_reply"])
@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update"])
async def test_whatever_breaks_the_card_is_there_once_and_shows_the_last_state(bot, workspace, home, method, fault):
    bot.start()
    if method == "chat.update":
        await bot.found()
        await sent(bot)
    getattr(workspace.faults, fault)(method)
    await bot.found(what="down")
    await workspace.until(lambda: [call for call in workspace.calls_of(method) if call.outcome != "ok"])
    await bot.found(GONE if method == "chat.update" else Presence.PRESENT, what="down")
    await until(lambda: no_row(bot, (RowState.WAITING, RowState.SENDING)), 10)
    assert len(home.cards) == 1
    await until(lambda: nothing_red(bot))


async def no_row(bot, states):
    rows = [*await bot.rows(), *await bot.rows(RowKind.THREAD), *await bot.rows(RowKind.NOTICE)]
    return not [row for row in rows if row.state in states]


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


async def test_an_outage_tells_critical_cards_by_the_second_path_and_ends_in_one_notice_without_replay(
    bot, workspace, home, candidates, pager, second
):
    soon_long(bot)
    bot.start()
    await bot.found(subject="gpu-01/before")
    await sent(bot)
    await workspace.stop_listening()
    await bot.found(subject="gpu-02/lasts")
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


async def nothing_red(bot):
    return await bot.red() == []


async def told(bot, name):
    return name in await bot.red()


async def test_an_outage_goes_on_over_a_start_of_the_bot(bot, workspace, home, store, fleet, advance):
    bot.start()
    await workspace.stop_listening()
    await bot.found()
    await until(lambda: told(bot, "slack"))
    await bot.stop()
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


# --- channels -------------------------------------------------------------------------------------------------------


async def archive(workspace, channel):
    channel.is_archived = True


async def throw_out(workspace, channel):
    channel.members.remove("U0GPUONCALL")


async def make_private(workspace, channel):
    channel.members.remove("U0GPUONCALL")
    channel.is_private = True


@pytest.mark.parametrize(
    ("shut", "error"), [(archive, "is_archived"), (throw_out, "not_in_channel"), (make_private, "channel_not_found")]
)
async def test_cards_of_a_channel_that_takes_none_come_to_the_home_channel_and_it_is_said_once(
    bot, workspace, home, candidates, caplog, shut, error
):
    await shut(workspace, candidates)
    bot.start()
    await bot.idle()
    await sent(bot)
    assert candidates.cards == []
    assert (
        titles(home)[0]
        == f"*No message can be posted in* {candidates.id}: chat.postMessage: {error}: "
        + (titles(home)[0].split(f"{error}: ")[1])
    )
    assert titles(home)[1] == "FREE gpu-01: 1 GPU free"
    assert await bot.red() == [candidates.id]
    assert len([record for record in caplog.records if error in record.message]) == 1
    assert len([call for call in workspace.calls_of("chat.postMessage") if call.outcome == error]) == 1


async def test_the_card_of_a_channel_that_was_archived_later_waits_if_it_can_and_moves_if_it_must(
    store, fleet, advance, workspace, home, candidates
):
    bot = Bot(store, fleet, advance, workspace)
    runners = workspace.channel("gpu-private")
    bot.outbox.delivery._settings.channels[Kind.RUNNER] = runners.id
    bot.start()
    await bot.idle()
    await bot.found()
    await sent(bot)
    candidates.is_archived = runners.is_archived = True
    await bot.sample((H,))
    await bot.found(what="down")
    await workspace.until(lambda: len(home.cards) == 3)
    await bot.stop()
    assert workspace.calls_of("chat.update")[0].outcome == "is_inactive"
    assert sum("Posted once more" in card.text for card in home.cards) == 1  # the runner's; free GPUs can wait
    assert len([call for call in workspace.calls if call.outcome in ("is_inactive", "is_archived")]) <= 3
    assert set(await bot.red()) >= {candidates.id, runners.id}


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


# --- messages that people deleted -----------------------------------------------------------------------------------


async def test_the_deleted_card_of_a_stall_is_posted_once_more_and_not_a_third_time(bot, workspace, home, caplog):
    bot.start()
    await bot.found()
    await sent(bot)
    home.cards[0].deleted_at = workspace.now()
    await bot.found(what="down")
    await workspace.until(lambda: home.cards)
    await sent(bot)
    assert "Posted once more" in home.cards[0].text
    await until(lambda: nothing_red(bot))
    home.cards[0].deleted_at = workspace.now()
    await bot.found(what="erroring")
    await until(lambda: told(bot, "deleted cards"))
    assert home.cards == []
    assert len([record for record in caplog.records if "is gone from Slack" in record.message]) == 2
    await bot.found(GONE)
    await until(lambda: nothing_red(bot))


# --- tokens, scopes, blocks -----------------------------------------------------------------------------------------


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
    assert len(workspace.calls_of("chat.postMessage")) == 1
    assert workspace.bot_token not in caplog.text


async def test_refused_blocks_turn_the_health_red_and_are_counted(bot, workspace, home):
    workspace.faults.refuse("chat.postMessage", "invalid_blocks")
    bot.start()
    await bot.found()
    await sent(bot)
    assert home.cards[0].blocks == []
    assert (await bot.red(), bot.outbox.delivery.invalid_blocks) == (["invalid blocks"], 1)


# --- the database ---------------------------------------------------------------------------------------------------


async def test_while_the_database_is_locked_nothing_leaves_it_is_said_once_and_nothing_is_lost(
    bot, workspace, home, store, caplog
):
    caplog.set_level(logging.INFO, "bot.outbox")
    await bot.found()
    with store.engine.connect() as other:
        other.exec_driver_sql("PRAGMA busy_timeout=50")
    bot.store.engine.dispose()
    sa.event.listen(store.engine, "connect", lambda raw, _: raw.execute("PRAGMA busy_timeout=50"))
    with store.engine.connect().execution_options(writes=True) as holder:
        holder.execute(sa.text("SELECT 1"))
        bot.start()
        await until(lambda: asyncio.sleep(0, "could not be read" in caplog.text))
        await asyncio.sleep(1.2)
        assert home.cards == []
    await sent(bot)
    assert len(home.cards) == 1
    said = [record.message for record in caplog.records if "be read" in record.message]
    assert ["again" in message for message in said] == [True, True]


async def test_a_full_disk_after_a_post_makes_no_second_card(bot, workspace, home, store, caplog):
    """The message is in Slack and cannot be written down: as soon as it can, it is looked for and found."""
    await bot.found()
    full = []

    def refuse(connection, cursor, statement, parameters, context, executemany):
        if full and statement.startswith("UPDATE"):
            raise sa.exc.OperationalError(statement, parameters, Exception("database or disk is full"))

    sa.event.listen(store.engine, "before_cursor_execute", refuse)
    workspace.faults.slow("chat.postMessage", 0.3)
    bot.start()
    await workspace.until(lambda: home.cards)
    full.append(True)
    await until(lambda: asyncio.sleep(0, "disk is full" in caplog.text))
    full.clear()
    await sent(bot)
    assert len(home.cards) == 1


async def test_an_error_of_tomorrow_holds_up_its_own_row_only(bot, workspace, home):
    workspace.faults.refuse("chat.postMessage", "an_error_of_tomorrow")
    bot.start()
    await bot.found(subject="gpu-01/a")
    await workspace.until(lambda: workspace.calls_of("chat.postMessage"))
    await bot.found(subject="gpu-01/b")
    await workspace.until(lambda: home.cards)
    assert "gpu-01 b" in titles(home)[0]


def test_every_kind_of_failure_is_one_that_this_file_knows():
    assert {kind.value for kind in DeliveryKind} == {
        "unreachable", "unsure", "rate_limited", "invalid_blocks", "token", "scope", "channel", "gone", "uneditable",
        "refused",
    }  # fmt: skip
    assert issubclass(DeliveryError, Exception)
