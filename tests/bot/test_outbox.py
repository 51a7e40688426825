"""Cards on their way to a real Slack workspace on loopback: once, in order, and never a free GPU that is not."""

import asyncio
import contextlib
import logging
from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance, AdvanceSettings, Click
from bot.notify import PAGE
from bot.store import backlog, incidents
from bot.store.outbox import RowKind, RowState
from tests.bot.outward import LAST, Bot, C, H, sent, until
from tests.build import FIRST_WINDOW, heartbeat, observation


@pytest.fixture
def bot(outbox_bot):
    return outbox_bot


async def health(bot):
    return await bot.store.read(lambda connection: backlog.backlog(connection, clock.now()))


# --- what is said ---------------------------------------------------------------------------------------------------


async def test_a_free_gpu_is_posted_once_silently_with_its_key_and_without_unfurling(bot, workspace, candidates):
    bot.start()
    await bot.idle()
    (row,) = await sent(bot)
    (card,) = candidates.cards
    assert card.text.startswith("FREE gpu-01: 1 GPU free\n")
    assert card.metadata == {"event_type": "gpu_oncall", "event_payload": {"delivery": row.delivery_key}}
    assert (card.unfurl_links, card.unfurl_media, row.ts) == (False, False, card.ts)
    assert "<@" not in card.text


async def test_a_gpu_that_is_taken_before_the_card_is_sent_is_never_said(bot, candidates):
    await bot.idle()
    bot.fleet.heard(heartbeat(LAST, (H,)))
    bot.start()

    async def dropped():
        return [row for row in await bot.rows() if row.state is RowState.DROPPED]

    (row,) = await until(dropped)
    assert (candidates.cards, row.last_error) == ([], "it was over before anybody heard of it")


async def test_a_card_waits_while_freshness_cannot_be_told_and_goes_out_when_it_can(bot, workspace, candidates):
    await bot.idle()
    bot.fleet.heard(heartbeat(LAST + 1))  # the node closed a window that has not arrived
    bot.start()

    async def postponed():
        (row,) = await bot.rows()
        return row.not_before > clock.now() and row.state is RowState.WAITING

    await until(postponed)
    assert candidates.cards == []
    await bot.report(observation(LAST + 1))
    await workspace.until(lambda: candidates.cards)


async def test_a_node_of_eight_gpus_that_is_taken_at_once_adds_one_line_to_the_thread(bot, workspace, candidates):
    bot.start()
    await bot.idle([C] * 8)
    await sent(bot)
    await bot.sample([H] * 8)
    await sent(bot, RowKind.THREAD)
    (line,) = candidates.replies(candidates.cards[0])
    assert line.text.startswith("GPUs 0–7 are no longer free. The same for each: it was seen in use just now")


async def test_a_change_edits_the_card_and_adds_lines_to_its_thread_in_order(bot, workspace, candidates):
    bot.start()
    await bot.idle((C, C))
    await sent(bot)
    await bot.sample((C, H))
    await bot.sample((H, H))
    await sent(bot, RowKind.THREAD)
    await workspace.until(lambda: candidates.cards[0].text.startswith("OVER gpu-01: 2 no longer free"))
    (card,) = candidates.cards
    assert [line.text.split(" is ")[0] for line in candidates.replies(card)] == ["GPU 1", "GPU 0"]
    assert not any(block["type"] == "actions" for block in card.blocks)


@pytest.fixture
def ahead(monkeypatch):
    """The bot's clock is hours ahead, as of a host whose clock holds local time, until `ahead` is called."""
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(hours=9))
    return lambda: monkeypatch.setattr(clock, "now", now)


async def test_a_card_takes_its_word_back_at_once_also_where_the_clock_was_set_back_since(
    bot, workspace, candidates, ahead
):
    bot.start()
    await bot.idle()
    await sent(bot)
    ahead()
    await bot.sample((H,))
    await workspace.until(lambda: candidates.cards[0].text.startswith("OVER gpu-01"), 20.0)


@pytest.mark.parametrize("is_started_anew", [False, True])
async def test_a_stall_that_waited_for_slack_when_the_clock_was_set_back_is_told_as_soon_as_it_can_be(
    bot, workspace, home, ahead, is_started_anew
):
    await workspace.stop_listening()
    bot.start()
    await bot.found()
    await until(lambda: waits(bot))
    if is_started_anew:
        await bot.stop()
    ahead()
    if is_started_anew:
        bot.start()
    await workspace.listen()
    await workspace.until(lambda: home.cards, 20.0)
    assert await until(lambda: sent(bot))


async def test_a_clock_that_is_kept_right_cuts_no_time_to_gather(store, fleet, workspace, candidates, monkeypatch):
    advance = Advance(store, fleet, AdvanceSettings(timedelta(minutes=9), timedelta(0), shadow=False))
    bot, now = Bot(store, fleet, advance, workspace), clock.now
    await bot.idle()
    await bot.outbox.turn()
    monkeypatch.setattr(clock, "now", lambda: now() - timedelta(seconds=1))
    await bot.outbox.turn()
    (row,) = await bot.rows()
    assert (row.state, candidates.cards) == (RowState.WAITING, [])


async def waits(bot):
    """Slack was tried in vain."""
    return [row for row in await bot.rows() if row.last_error and row.state is RowState.WAITING]


async def test_shadow_rows_never_leave(store, fleet, workspace, candidates):
    advance = Advance(store, fleet, AdvanceSettings(timedelta(0), timedelta(0), shadow=True))
    bot = Bot(store, fleet, advance, workspace)
    bot.start()
    await bot.idle()
    (row,) = await bot.rows()
    await bot.outbox.turn()
    await bot.stop()
    assert (row.state, candidates.cards) == (RowState.SHADOW, [])


async def test_edits_of_one_message_keep_their_distance_except_after_a_click(store, fleet, workspace, candidates):
    every = timedelta(seconds=30)
    advance = Advance(store, fleet, AdvanceSettings(timedelta(0), every, shadow=False))
    bot = Bot(store, fleet, advance, workspace, every)
    bot.start()
    await bot.idle((C, C))
    await sent(bot)
    await bot.sample((C, H))
    await sent(bot, RowKind.THREAD)
    (row,) = await bot.rows()
    assert row.not_before - row.sent_at == every
    assert candidates.cards[0].edits == 0
    (incident,) = await store.read(incidents.all_open)
    token = await store.write(lambda transaction: incidents.button_token(transaction.connection, incident, clock.now()))
    await advance.acknowledge(Click(token, "acknowledge", "U0ALICE", workspace.team.id))
    await workspace.until(lambda: "Acknowledged by <@U0ALICE>" in candidates.cards[0].text)
    await bot.stop()


async def test_a_click_while_the_card_is_on_its_way_is_shown_at_once_too(store, fleet, workspace, candidates):
    every = timedelta(seconds=30)
    advance = Advance(store, fleet, AdvanceSettings(timedelta(0), every, shadow=False))
    bot = Bot(store, fleet, advance, workspace, every)
    workspace.faults.slow("chat.postMessage", 0.3)
    bot.start()
    await bot.idle()
    await workspace.until(lambda: candidates.cards)
    token = candidates.cards[0].blocks[-1]["elements"][0]["value"]
    await advance.acknowledge(Click(token, "acknowledge", "U0ALICE", workspace.team.id))
    await workspace.until(lambda: "Acknowledged by <@U0ALICE>" in candidates.cards[0].text)
    await bot.stop()


async def test_a_card_drawn_while_a_window_was_on_its_way_is_drawn_again_when_it_is_there(bot, workspace, candidates):
    bot.start()
    await bot.idle((C, C))
    await sent(bot)
    await bot.sample((C, H), LAST + 1)
    await workspace.until(
        lambda: candidates.cards[0].text.startswith("BEING JUDGED gpu-01: 1 being judged, 1 no longer")
    )
    await bot.report(observation(LAST + 1, (C, H)))
    await workspace.until(lambda: candidates.cards[0].text.startswith("FREE gpu-01: 1 GPU free, 1 no longer free"))
    await sent(bot)


# --- never twice ----------------------------------------------------------------------------------------------------


async def test_a_bot_that_dies_between_the_post_and_its_record_posts_no_second_card(bot, workspace, candidates):
    workspace.faults.slow("chat.postMessage", 30)  # Slack has it, the answer is on its way for ever
    bot.start()
    await bot.idle()
    await workspace.until(lambda: candidates.cards)
    await bot.stop()
    (row,) = await bot.rows()
    assert (row.state, row.ts) == (RowState.SENDING, None)
    bot.start()
    (row,) = await sent(bot)
    assert [card.ts for card in candidates.cards] == [row.ts]
    assert len(workspace.calls_of("chat.postMessage")) == 1


async def test_a_lost_answer_is_looked_for_on_every_page_before_posting_again(bot, workspace, candidates):
    workspace.faults.lose_reply("chat.postMessage")
    bot.start()
    await bot.idle()
    await workspace.until(lambda: candidates.cards)
    for number in range(PAGE + 1):
        await workspace.person("bob").say(f"chatter {number}", "gpu-candidates")
    await sent(bot)
    assert len(candidates.cards) == 1
    assert len(workspace.calls_of("conversations.history")) == 2


async def test_a_post_that_never_arrived_is_posted_again(bot, workspace, candidates):
    workspace.faults.drop("chat.postMessage")
    bot.start()
    await bot.idle()
    await sent(bot)
    assert len(candidates.cards) == 1
    assert len(workspace.calls_of("chat.postMessage")) == 2


async def test_a_lost_answer_to_a_thread_line_is_looked_for_in_the_thread(bot, workspace, candidates):
    bot.start()
    await bot.idle((C, C))
    await sent(bot)
    workspace.faults.lose_reply("chat.postMessage")
    await bot.sample((C, H))
    await sent(bot, RowKind.THREAD)
    assert len(candidates.replies(candidates.cards[0])) == 1
    assert workspace.calls_of("conversations.replies")


async def test_where_the_history_cannot_be_read_the_second_card_says_that_it_may_be_one(bot, workspace, candidates):
    workspace.scopes.discard("channels:history")
    workspace.faults.lose_reply("chat.postMessage")
    bot.start()
    await bot.idle()
    await sent(bot)
    assert [("Possibly posted twice" in card.text) for card in candidates.cards] == [False, True]


# --- when Slack is in trouble ---------------------------------------------------------------------------------------


async def test_rows_wait_while_slack_is_away_and_it_is_said_once_when_it_goes_and_when_it_is_back(
    bot, workspace, candidates, caplog
):
    caplog.set_level(logging.INFO, "bot.outbox")
    await workspace.stop_listening()
    bot.start()
    await bot.idle()

    async def failed_twice():
        trouble = bot.outbox.troubles.pauses.troubles.get("slack")
        return trouble is not None and trouble.failures >= 2

    await until(failed_twice, 10)
    await workspace.listen()
    await workspace.until(lambda: candidates.cards, 10)
    await sent(bot)
    said = [record.message for record in caplog.records if "what=slack" in record.message]
    assert [" ".join(message.split()[:4]).rstrip(",;") for message in said] == [
        "Slack does not take",
        "Slack takes messages again",
    ]


async def test_a_rate_limit_stops_that_method_only_and_for_as_long_as_slack_says(bot, workspace, candidates):
    bot.start()
    await bot.idle((C, C))
    await sent(bot)
    workspace.faults.rate_limited("chat.postMessage", retry_after=1)
    await bot.sample((C, H))
    await workspace.until(lambda: "1 no longer free" in candidates.cards[0].text)
    await sent(bot, RowKind.THREAD)
    first, second = workspace.calls_of("chat.postMessage")[-2:]
    assert workspace.calls_of("chat.update")[-1].at < second.at  # the edit did not wait
    assert second.at - first.answered_at >= timedelta(seconds=1)


async def test_refused_blocks_go_out_once_more_as_text_and_are_counted(bot, workspace, candidates):
    workspace.faults.refuse("chat.postMessage", "invalid_blocks")
    bot.start()
    await bot.idle()
    await sent(bot)
    (card,) = candidates.cards
    assert (card.blocks, bot.outbox.delivery.invalid_blocks) == ([], 1)
    assert card.text.startswith("FREE gpu-01")


@pytest.mark.parametrize("error", ["token_revoked", "missing_scope"])
async def test_trouble_that_a_person_must_mend_is_said_once_and_not_hammered(bot, workspace, candidates, caplog, error):
    workspace.faults.refuse("chat.postMessage", error, times=None)
    bot.start()
    await bot.idle()

    async def failed():
        return bot.outbox.troubles.pauses.troubles

    (trouble,) = (await until(failed)).values()
    assert trouble.until - clock.monotonic_seconds() > 200
    assert trouble.message.startswith(f"chat.postMessage: {error}: ")
    bot.outbox.wake()
    await bot.outbox.turn()
    assert len(workspace.calls_of("chat.postMessage")) == 1
    assert len([record for record in caplog.records if error in record.message]) == 1
    assert workspace.bot_token not in caplog.text


async def test_a_message_that_somebody_deleted_is_not_posted_again(bot, workspace, candidates):
    bot.start()
    await bot.idle((C, C))
    await sent(bot)
    candidates.cards[0].deleted_at = workspace.now()
    await bot.sample((C, H))

    async def all_dropped():
        rows = [*await bot.rows(), *await bot.rows(RowKind.THREAD)]
        return len(rows) == 2 and all(row.state is not RowState.WAITING for row in rows)

    await until(all_dropped)
    assert candidates.cards == []


async def test_a_card_that_cannot_be_edited_any_more_says_each_later_state_once_in_its_thread(
    bot, workspace, candidates
):
    bot.start()
    await bot.idle((C, C))
    await sent(bot)
    workspace.edit_window = timedelta(0)
    await bot.sample((C, H))
    await sent(bot, RowKind.THREAD)
    await sent(bot)
    await bot.sample((H, H))
    await workspace.until(lambda: len(candidates.replies(candidates.cards[0])) == 4)
    await sent(bot)
    states = [one.text.split("\n")[0] for one in candidates.replies(candidates.cards[0]) if "gpu-01:" in one.text]
    assert states == ["FREE gpu-01: 1 GPU free, 1 no longer free", "OVER gpu-01: 2 no longer free"]
    assert sum("Slack no longer lets the card above be edited" in one.text for one in candidates.shown) == 2
    assert len(workspace.calls_of("chat.update")) == 1
    assert (await health(bot)).frozen == 0  # it is over


async def test_a_row_that_cannot_be_drawn_is_kept_and_the_others_go_out(bot, store, workspace, candidates, caplog):
    await bot.idle()
    (incident,) = await store.read(incidents.all_open)
    broken = replace(incident, kind="of tomorrow", revision=2)  # a kind that this version has no channel for
    await store.write(lambda transaction: incidents.save(transaction.connection, incident, broken))
    bot.fleet.heard(heartbeat(LAST, node="gpu-02"))
    await bot.report(*(observation(FIRST_WINDOW + i, node="gpu-02") for i in range(3)))
    bot.start()
    await workspace.until(lambda: candidates.cards)
    assert [card.text.split(":")[0] for card in candidates.cards] == ["FREE gpu-02"]
    assert "nobody foresaw" in caplog.text


async def test_a_turn_that_fails_as_a_whole_does_not_end_the_loop(bot, workspace, candidates, caplog):
    bot.store.close()
    bot.start()
    await until(lambda: asyncio.sleep(0, "could not be read" in caplog.text))
    assert not bot.tasks[0].done()
    with contextlib.suppress(RuntimeError):
        await bot.stop()
