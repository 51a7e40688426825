"""People at a real Slack workspace on loopback: what they press and type, and what they see."""

import asyncio
import logging
from datetime import timedelta

import pytest
import sqlalchemy as sa
from slack_sdk.web.async_client import AsyncWebClient

from bot import clock
from bot.incident import Kind
from bot.store import schema
from tests.bot.outward import LAST, C, H, U, sent
from tests.bot.slack_bot import SlackBot, answer, ask, at_work
from tests.build import FIRST_WINDOW, gpu_uuid, gpu_window, heartbeat, observation
from wire.reasons import Reason, ReasonCode


@pytest.fixture
async def card(bot, candidates):
    """Of two free GPUs."""
    await bot.idle((C, C))
    await sent(bot)
    return candidates.cards[0]


# --- buttons --------------------------------------------------------------------------------------------------------


async def test_acknowledge_is_answered_shown_on_the_card_and_takes_the_button_away(bot, workspace, card):
    seen = await workspace.person("alice").press(card, "Acknowledge")
    assert await answer(workspace, seen) == "Acknowledged. The card shows it to everybody"
    await workspace.until(lambda: "Acknowledged by <@U0ALICE>, <!date^" in card.text)
    assert "Acknowledge" not in str(card.blocks[-1])
    assert await bot.clicks() == [("U0ALICE", "acknowledge", 1, "done")]


async def test_a_double_click_has_one_effect_and_both_are_recorded(bot, workspace, candidates, card):
    alice, bob = workspace.person("alice"), workspace.person("bob")
    presses = [person.press(card, "Acknowledge") for person in (alice, alice, bob)]
    assert all(seen.acked for seen in await asyncio.gather(*presses))
    await workspace.until(lambda: len(workspace.ephemerals) == 3)
    said = [one.text for one in workspace.ephemerals]
    outcomes = [outcome for *_, outcome in await bot.clicks()]
    assert sorted(outcomes) == ["already", "already", "done"]
    assert sum(text.startswith("Acknowledged. ") for text in said) == 1
    await sent(bot)
    await workspace.until(lambda: len(candidates.replies(card)) == 1)
    assert [line.text for line in candidates.replies(card)] == ["Acknowledged"]


async def test_an_old_screen_still_shows_the_button_and_it_says_who_was_faster(bot, workspace, card):
    await answer(workspace, await workspace.person("alice").press(card, "Acknowledge"))
    await workspace.until(lambda: card.edits == 1)
    await sent(bot)
    seen = await workspace.person("bob").press(card, "Acknowledge", version=0)
    assert (await answer(workspace, seen)).startswith("<@U0ALICE> acknowledged this before you, <!date^")
    await workspace.until(lambda: card.edits == 2)  # the card on his screen is drawn again


async def test_it_was_in_use_takes_the_gpus_back_until_they_were_really_used(bot, workspace, card):
    seen = await workspace.person("bob").choose(card, "card_menu", "It was in use")
    assert (await answer(workspace, seen)).startswith("Thank you")
    await workspace.until(lambda: card.text.startswith("SAID TO BE IN USE gpu-01: 2 said to be in use"))
    assert "It was in use" not in str(card.blocks)
    seen = await workspace.person("alice").command("/gpu-candidates", "gpu-01")
    text = await answer(workspace, seen)
    assert "*0 GPUs free now*" in text
    assert "said to be in use by a person" in text


async def test_why_explains_every_gpu_of_the_card_and_changes_nothing(bot, workspace, card):
    seen = await workspace.person("alice").choose(card, "card_menu", "Why?")
    text = await answer(workspace, seen)
    assert text.count("*Free now*") == 2
    assert "Utilisation at most 0 % · memory at most 0 B · processes 0 · 30 of 30 samples" in text
    assert card.edits == 0
    assert await bot.clicks() == [("U0ALICE", "why", 1, "answered")]


async def test_a_button_of_an_incident_that_is_over_says_so_and_the_card_is_drawn_again(bot, workspace, card):
    await bot.sample((H, H))
    await workspace.until(lambda: card.text.startswith("OVER"))
    edits = card.edits
    seen = await workspace.person("alice").press(card, "Acknowledge", version=0)
    assert (await answer(workspace, seen)).startswith("This is over since <!date^")
    await workspace.until(lambda: card.edits > edits)
    assert (await bot.clicks())[-1] == ("U0ALICE", "acknowledge", 1, "closed")


async def test_a_button_that_nobody_knows_is_answered_and_our_card_is_drawn_again(bot, workspace, card):
    await bot.store.write(lambda transaction: transaction.connection.execute(sa.delete(schema.button)))
    seen = await workspace.person("alice").press(card, "Acknowledge")
    assert (await answer(workspace, seen)).startswith("This button is not known here any more")
    await workspace.until(lambda: card.edits == 1)
    assert await bot.clicks() == [("U0ALICE", "acknowledge", None, "unknown_button")]
    assert (await answer(workspace, await workspace.person("alice").press(card, "Acknowledge"))).startswith("Ackn")


async def test_a_click_of_another_team_is_refused_said_and_recorded(bot, workspace, candidates, card):
    candidates.members.append("U0ERIN")
    seen = await workspace.person("erin").press(card, "Acknowledge")
    assert (await answer(workspace, seen)).startswith("Only members of the workspace")
    assert await bot.clicks() == [("U0ERIN", "acknowledge", 1, "refused: other_team")]
    assert card.edits == 0


async def test_a_click_in_a_channel_that_is_not_configured_is_refused(bot, workspace, candidates, card):
    elsewhere = workspace.channel("gpu-private")
    card.channel_id = elsewhere.id
    seen = await workspace.person("alice").press(card, "Acknowledge")
    assert (await answer(workspace, seen)).startswith("This bot answers in its own channels")
    assert await bot.clicks() == [("U0ALICE", "acknowledge", 1, "refused: other_channel")]


async def test_the_buttons_of_our_own_card_work_also_in_a_channel_that_the_config_names_no_more(bot, workspace):
    """A countdown that stands there must be stopped by whoever reads it."""
    before = workspace.channel("gpu-private")
    bot.outbox.delivery._settings.channels[Kind.CANDIDATE] = before.id
    await bot.idle()
    await sent(bot)  # and written down as ours
    seen = await workspace.person("alice").press(before.cards[0], "Acknowledge")
    assert (await answer(workspace, seen)).startswith("Ackn")
    assert await bot.clicks() == [("U0ALICE", "acknowledge", 1, "done")]


async def test_while_the_own_team_is_not_known_a_click_changes_nothing(store, fleet, advance, workspace, candidates):
    workspace.faults.refuse("auth.test", "internal_error", times=None)
    async with at_work(SlackBot(store, fleet, advance, workspace), workspace) as bot:
        await bot.idle()
        await sent(bot)
        seen = await workspace.person("alice").press(candidates.cards[0], "Acknowledge")
        assert (await answer(workspace, seen)).startswith("The bot cannot tell its own workspace")
        assert [outcome for *_, outcome in await bot.clicks()] == ["refused: team_unknown"]


async def test_everything_that_a_newer_version_drew_is_acknowledged(bot, workspace, candidates):
    unknown = {"type": "actions", "elements": [{"type": "button", "action_id": "reboot", "value": "x"}]}
    unknown["elements"][0]["text"] = {"type": "plain_text", "text": "Reboot"}
    client = AsyncWebClient(token=workspace.bot_token, base_url=workspace.api_url)
    await client.chat_postMessage(channel=candidates.id, text="from tomorrow", blocks=[unknown])
    alice = workspace.person("alice")
    seen = await alice.press(candidates.cards[0], "Reboot")
    assert (await answer(workspace, seen)).startswith("This button belongs to another version")
    assert (await bot.clicks())[0][3] == "refused: unknown action"
    assert (await alice.shortcut("of_tomorrow", candidates.cards[0])).acked
    assert (await alice.open_home()).acked
    of_tomorrow = await alice.command("/gpu-of-tomorrow", "gpu-01")
    assert (await answer(workspace, of_tomorrow)).startswith("This command belongs")


# --- connections ----------------------------------------------------------------------------------------------------


async def test_the_loss_of_one_connection_loses_no_click(bot, workspace, card):
    await workspace.sockets.close(1)
    for person in ("alice", "bob", "carol"):
        assert (await workspace.person(person).choose(card, "card_menu", "Why?")).acked


async def test_the_bot_starts_while_slack_is_away_says_it_once_and_is_there_when_slack_is(
    store, fleet, advance, workspace, candidates, caplog
):
    caplog.set_level(logging.INFO, "bot.slack")
    await workspace.stop_listening()
    bot = SlackBot(store, fleet, advance, workspace)
    bot.start()
    await bot.idle()
    async with asyncio.timeout(30):
        while "No click or command can arrive" not in caplog.text:
            await bot.rows()
    await workspace.listen()
    await workspace.until_connected(sockets=2, seconds=15)
    await workspace.until(lambda: candidates.cards, 15)
    await answer(workspace, await workspace.person("alice").press(candidates.cards[0], "Acknowledge"))
    said = [
        record.message.split(",")[0].split(";")[0] for record in caplog.records if record.name == "bot.slack.sockets"
    ]
    assert said == ["No click or command can arrive from Slack", "Clicks and commands arrive from Slack"]
    assert workspace.app_token not in caplog.text
    await bot.stop()


async def test_a_wrong_app_token_is_said_with_what_to_do(store, fleet, advance, workspace, caplog):
    right = workspace.app_token
    workspace.app_token = "xapp-wrong"
    bot = SlackBot(store, fleet, advance, workspace)
    workspace.app_token = right
    bot.start()
    async with asyncio.timeout(30):
        while "invalid_auth" not in caplog.text:
            await bot.rows()
    await bot.stop()
    assert "SLACK_APP_TOKEN" in caplog.text
    assert "xapp-wrong" not in caplog.text


# --- commands -------------------------------------------------------------------------------------------------------


async def test_candidates_tells_what_is_free_not_judged_on_the_way_and_baseline_only(bot, workspace):
    little = gpu_window(
        H, 3, memory_max_bytes=4 << 20, processes=[], reasons=[Reason(ReasonCode.MEMORY_HELD, "4194304")]
    )
    gpus = [[gpu_window(C, 0), gpu_window(H if number == 0 else C, 1), gpu_window(H, 2), little] for number in range(3)]
    bot.fleet.heard(heartbeat(LAST, (C, C, H, H)))
    await bot.report(*(observation(FIRST_WINDOW + number, gpus=gpus[number]) for number in range(3)))
    await bot.report(*(observation(FIRST_WINDOW + number, node="gpu-02") for number in range(3)))  # no heartbeat
    seen = await workspace.person("alice").command("/gpu-candidates", "")
    text = await answer(workspace, seen)
    assert text.startswith("*1 GPU free now* (2 nodes)\nConfirmed, but not judged just now: 1\nOn the way: 1\nIdle but")
    assert "gpu-01 GPU 0: free for 15 min" in text
    assert "gpu-02 GPU 0: not judged now: the node has sent no heartbeat since this bot started" in text
    assert "gpu-01 GPU 1: on the way: idle in 2 of 3 windows in a row so far" in text
    assert "gpu-01 GPU 3: 4.0 MiB of memory, else idle" in text
    assert "gpu-01 GPU 2" not in text
    (table,) = [block for block in seen.ephemerals[0].blocks if block["type"] == "table"]
    assert [cell["text"] for cell in table["rows"][1]][:3] == ["gpu-01", "0", "free for 15 min"]


async def test_candidates_asks_freshness_again_at_every_answer(bot, workspace):
    await bot.idle()
    assert "*1 GPU free now* (gpu-01)" in await ask(workspace, "/gpu-candidates", "gpu-01")
    bot.fleet.heard(heartbeat(LAST, (H,)))
    assert "*0 GPUs free now* (gpu-01)" in await ask(workspace, "/gpu-candidates", "gpu-01")


async def test_an_answer_is_for_the_caller_only_unless_it_is_shared(bot, workspace):
    await bot.idle()
    place = workspace.channel("gpu-oncall")
    await ask(workspace, "/gpu-candidates")
    assert place.shown == []
    assert (await workspace.person("alice").command("/gpu-candidates", "“gpu-01” share")).acked
    await workspace.until(lambda: place.shown)
    assert "1 GPU free now" in place.shown[0].text


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("/gpu-candidates", "gpu-1", "I do not know the word `gpu-1`\nDid you mean gpu-01?\n/gpu-candidates [node]"),
        ("/gpu-candidates", "<!channel> & *x*", "I do not know the word `&lt;!channel&gt;`"),
        ("/gpu-why", "", "/gpu-why node gpu|runner [time] [share]\n`/gpu-why gpu-07 3` now\n"),
        ("/gpu-why", "gpu-10 0", "There is no node `gpu-10`\nDid you mean gpu-01?"),
        ("/gpu-why", "gpu-01 9", "gpu-01 has no GPU and no runner `9`. It has GPU 0"),
        ("/gpu-why", "gpu-01 0 noonish", "I do not understand the time `noonish`"),
        ("/gpu-why", "gpu-01 0 2126-01-01T00:00", "`2126-01-01t00:00` is in the future"),
        ("/gpu-help", "please", "*What this bot does*"),
    ],
)
async def test_what_is_not_understood_is_answered_with_the_nearest_word_and_examples(
    bot, workspace, command, text, expected
):
    await bot.idle()
    assert (await ask(workspace, command, text)).startswith(expected)


async def test_commands_from_elsewhere_are_refused_and_direct_messages_are_not(bot, workspace):
    await bot.idle()
    assert (await ask(workspace, "/gpu-candidates", channel="gpu-private")).startswith("This bot answers in its own")
    direct = workspace.direct_message("U0ALICE")
    assert "1 GPU free now" in await ask(workspace, "/gpu-candidates", channel=direct.id)


async def test_an_answer_whose_blocks_are_refused_comes_as_text(bot, workspace):
    await bot.idle()
    workspace.faults.server_error("response_url", status=400, text="invalid_blocks")
    seen = await workspace.person("alice").command("/gpu-candidates", "")
    assert "1 GPU free now" in await answer(workspace, seen)
    assert seen.ephemerals[0].blocks == []


async def test_a_bug_is_answered_with_a_sentence_and_never_a_trace(bot, workspace, caplog):
    await bot.idle()
    bot.store.engine.dispose()
    bot.store._readers.shutdown()
    assert (await ask(workspace, "/gpu-why", "gpu-01 0")).startswith("Something went wrong on our side")
    assert "could not be answered" in caplog.text


# --- why ------------------------------------------------------------------------------------------------------------


async def test_why_now_tells_the_values_the_verdict_the_streak_and_the_reason(bot, workspace):
    await bot.idle((C, H))
    text = await ask(workspace, "/gpu-why", "gpu-01 0")
    assert text.splitlines()[0] == f"*gpu-01 GPU 0* · `NVIDIA H100 80GB HBM3` · `{gpu_uuid(0)}`"
    assert "*Free now*: idle in 3 windows in a row, and in the newest sample" in text
    assert "Idle windows of 5 min in a row up to this one: 3 of the 3 that are needed" in text
    text = await ask(workspace, "/gpu-why", f"gpu-01 {gpu_uuid(1)[:12]}")
    assert "*In use*: it was seen in use just now (memory in use)" in text
    assert "• 4.0 GiB of memory are in use" in text
    assert "• `alice`, PID 4321, `python train.py`" in text


async def test_why_in_the_past_reads_the_record(bot, workspace):
    errors = [Reason(ReasonCode.SAMPLE_ERROR, "nvidia-smi hung")]
    await bot.report(observation(FIRST_WINDOW, (C,)), observation(FIRST_WINDOW + 1, (C,)))
    await bot.report(observation(FIRST_WINDOW + 2, (U,), errors=errors), observation(FIRST_WINDOW + 9, (H,)))
    asked = "gpu-01 0 2026-11-30T"
    text = await ask(workspace, "/gpu-why", asked + "00:07")
    assert "*not confirmed free*, 2 idle windows in a row (3 needed)" in text
    assert "*idle*" in text
    text = await ask(workspace, "/gpu-why", asked + "00:12")
    assert "At least one sample of this window failed: the reading failed: `nvidia-smi hung`" in text
    assert "*cannot be told*" in text
    text = await ask(workspace, "/gpu-why", asked + "00:30")
    assert "*not known*. No report of that time is there" in text
    assert "The last report before that ended <!date^" in text
    assert "*in use*" in await ask(workspace, "/gpu-why", asked + "00:47")
    for long_ago in ("2026-11-29T10:00", "99999d ago", "0001-01-01T00:00+14:00"):
        text = await ask(workspace, "/gpu-why", f"gpu-01 0 {long_ago}")
        assert text.startswith("*gpu-01 GPU 0* · ")
        assert "*not known*" in text


async def test_why_says_where_only_strictness_keeps_a_gpu_from_being_free(bot, workspace):
    little = gpu_window(H, memory_max_bytes=4 << 20, processes=[], reasons=[Reason(ReasonCode.MEMORY_HELD, "4194304")])
    await bot.report(observation(FIRST_WINDOW, gpus=[little]))
    assert "Only strictness about memory keeps it from being free" in await ask(workspace, "/gpu-why", "gpu-01 gpu 0")


async def test_all_answers_come_within_a_second(bot, workspace, card):
    started = clock.now()
    await ask(workspace, "/gpu-candidates")
    await ask(workspace, "/gpu-why", "gpu-01 0")
    await answer(workspace, await workspace.person("alice").press(card, "Acknowledge"))
    await workspace.until(lambda: card.edits == 1)
    assert clock.now() - started < timedelta(seconds=3)
