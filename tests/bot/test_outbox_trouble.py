"""When things go wrong: what Slack does, a row each, and what then comes to people."""

import asyncio
import logging
from datetime import timedelta

import pytest
import sqlalchemy as sa

from bot import clock
from bot.incident import Kind
from bot.judge.verdict import Presence
from bot.notify import DeliveryError, DeliveryKind
from bot.store import outbox, schema
from bot.store.outbox import RowKind, RowState
from demo.workspace import Workspace
from tests.bot.advance_store import CLICK
from tests.bot.build_incidents import finding
from tests.bot.outward import GONE, Bot, C, H, locked, no_row, nothing_red, sent, titles, told, until


@pytest.fixture
def bot(outbox_bot):
    return outbox_bot


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


# --- what became quiet, or was over, before Slack took it -----------------------------------------------------------


async def refused(bot, workspace):
    """A card that Slack answered with an error, so that it waits for minutes."""
    workspace.faults.refuse("chat.postMessage", "an_error_of_tomorrow")
    await bot.found()
    await until(lambda: nothing_red_but_a_row(bot))


async def nothing_red_but_a_row(bot):
    return [name.partition(" ")[0] for name in await bot.red()] == ["row"]


async def lost_on_its_way(bot, workspace):
    """A card of which nobody knows yet that Slack did not take it."""
    workspace.faults.server_error("chat.postMessage")
    await bot.found()
    await workspace.until(lambda: workspace.calls_of("chat.postMessage"))


@pytest.mark.parametrize("fails", [refused, lost_on_its_way])
async def test_a_card_that_slack_did_not_take_waits_for_the_end_of_a_snooze(bot, workspace, home, fails):
    bot.start()
    await fails(bot, workspace)
    await bot.advance.snooze_node("gpu-07", clock.now() + timedelta(hours=1), CLICK)
    await until(lambda: no_row(bot))
    await bot.advance.found(finding(subject="gpu-01/other"))
    await workspace.until(lambda: home.cards)
    await until(lambda: nothing_red(bot))
    assert len(home.cards) == 1
    await bot.advance.unsnooze_node("gpu-07", CLICK)
    await workspace.until(lambda: len(home.cards) == 2)
    assert "gpu-07" in titles(home)[1]


async def test_a_card_that_slack_refused_leaves_nothing_red_when_its_problem_is_over(bot, workspace, home):
    bot.start()
    await refused(bot, workspace)
    await bot.found(GONE)
    await bot.store.write(lambda tx: outbox.hold_back(tx.connection, 1, clock.now()))
    await until(lambda: no_row(bot))
    assert (home.cards, await bot.red()) == ([], [])


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


async def test_a_wrong_bot_token_is_said_once_before_there_is_anything_to_say_and_is_over_with_the_next_start(
    bot, store, fleet, advance, workspace, caplog
):
    workspace.token_revoked = True
    bot.start()
    await until(lambda: told(bot, "slack"))
    assert await bot.outbox.turn() > 0
    assert len([record for record in caplog.records if "SLACK_BOT_TOKEN and restart" in record.message]) == 1
    await bot.stop()
    workspace.token_revoked = False
    mended = Bot(store, fleet, advance, workspace)
    mended.start()
    await until(lambda: nothing_red(mended))
    await mended.stop()
    assert len(workspace.calls_of("auth.test")) == 2
    assert workspace.calls_of("chat.postMessage") == []


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
    with locked(store):
        bot.start()
        await until(lambda: asyncio.sleep(0, "could not be read" in caplog.text))
        await asyncio.sleep(1.2)
        assert home.cards == []
    await sent(bot)
    assert len(home.cards) == 1
    await until(lambda: asyncio.sleep(0, "can be read again" in caplog.text))
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
