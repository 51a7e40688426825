"""Claims, by people at a real Slack workspace on loopback."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.claims import Claim
from bot.store import claims
from tests.bot.outward import C, H, sent, until
from tests.bot.slack_bot import answer, ask
from tests.build import gpu_uuid

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


async def held(bot, node="gpu-01"):
    return await bot.store.read(lambda connection: claims.claims_of_node(connection, node, clock.now()))


async def claimed(bot, since=-2 * HOUR, until=5 * MINUTE, by="U0ALICE", index=0):
    """A claim of the past, as the database would have it."""
    now = clock.now()
    new = Claim("gpu-01", gpu_uuid(index), index, by, now + since, now + until, "tuning")
    saved = await bot.store.write(lambda transaction: claims.add(transaction.connection, new))
    bot.fleet.note_claim(saved)
    return saved


async def move_end(bot, claim, until):
    moved = replace(claim, until=clock.now() + until, asked_at=clock.now(), asks=claim.asks)
    await bot.store.write(lambda transaction: claims.save(transaction.connection, moved))


async def question(bot, workspace, person="U0ALICE"):
    """The direct message to the holder."""
    await bot.claims.look()
    direct = workspace.direct_message(person)
    await workspace.until(lambda: direct.cards)
    return direct.cards[-1]


# --- while it holds -------------------------------------------------------------------------------------------------


async def test_a_claimed_gpu_is_never_announced_as_free(bot, workspace):
    await bot.report()
    await bot.idle((C, C))
    await sent(bot)
    card = workspace.channel("gpu-candidates").cards[0]
    assert "2 GPUs free" in card.text
    said = await ask(workspace, "/gpu-claim", "gpu-01 1 4h “fine-tuning” <@U0BOB>")
    assert said.startswith("Claimed: gpu-01 GPU 1 until <!date^")
    await workspace.until(lambda: "GPU 1: claimed* by <@U0ALICE>" in card.text)
    assert "FREE gpu-01: 1 GPU free, 1 no longer free" in card.text
    text = await ask(workspace, "/gpu-candidates", person="bob")
    assert text.startswith("*1 GPU free now*")
    assert "Claimed by a person: 1" in text
    assert "Claimed: gpu-01 GPU 1 by <@U0ALICE> until <!date^" in text
    assert "&lt;@U0BOB&gt;" in text
    assert "Idle, but allocated or claimed: 1" in await ask(workspace, "/gpu-status", "gpu-01")
    assert "*Claimed*: a person claimed it" in await ask(workspace, "/gpu-why", "gpu-01 1")


async def test_a_node_whose_gpus_are_all_claimed_gets_no_card(bot, workspace):
    await claimed(bot, until=3 * HOUR)
    await bot.idle((C,))
    await bot.advance.look_around()
    assert await bot.rows() == []


async def test_a_released_gpu_is_announced_again(bot, workspace):
    await claimed(bot, until=3 * HOUR)
    await bot.idle((C,))
    assert await ask(workspace, "/gpu-release", "gpu-01 0") == (
        "Released: gpu-01 GPU 0. May be called free from now on"
    )
    await sent(bot)
    assert workspace.channel("gpu-candidates").cards[0].text.startswith("FREE gpu-01")
    assert await held(bot) == []


async def test_claims_hold_over_a_start_of_the_bot(bot, workspace):
    await bot.idle((C,))
    await ask(workspace, "/gpu-claim", "gpu-01 0 4h")
    for one in await held(bot):
        bot.fleet.forget_claim(one)
    await bot.advance.start()
    assert list(bot.fleet.claims_of("gpu-01")) == [gpu_uuid(0)]


async def test_a_gpu_in_use_may_be_claimed_and_the_answer_says_so(bot, workspace):
    await bot.idle((H, C))
    text = await ask(workspace, "/gpu-claim", "gpu-01 all until=2099-12-24T18:00")
    assert "too short or too long" in text
    text = await ask(workspace, "/gpu-claim", "gpu-01 all 2d")
    assert "Claimed: gpu-01 GPU 0–1" in text
    assert "In use this moment, by somebody else perhaps: GPU 0. " in text


# --- what cannot be claimed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("", "/gpu-claim node gpu|all duration"),
        ("gpu-01 0", "/gpu-claim node gpu|all duration"),
        ("gpu-99 0 4h", "There is no node `gpu-99`\nDid you mean gpu-01?"),
        ("gpu-01 7 4h", "gpu-01 has no GPU `7`. It has GPU 0"),
        ("gpu-01 0 soon", "I do not understand the duration `soon`"),
        ("gpu-01 0 until=2020-01-01T10:00", "`until=2020-01-01t10:00` is in the past"),
        ("gpu-01 0 0m", "`0m` is too short or too long"),
        ("gpu-01 0 31d", "`31d` is too short or too long"),
        ("gpu-01 0 <!channel>", "I do not understand the duration `&lt;!channel&gt;`"),
    ],
)
async def test_what_cannot_be_claimed_is_answered_in_words(bot, workspace, typed, answer):
    await bot.idle((C,))
    assert (await ask(workspace, "/gpu-claim", typed)).startswith(answer)
    assert await held(bot) == []


async def test_what_somebody_else_claimed_is_not_taken_and_nothing_of_it_is(bot, workspace):
    await bot.idle((C, C))
    await ask(workspace, "/gpu-claim", "gpu-01 1 4h mine", person="bob")
    text = await ask(workspace, "/gpu-claim", "gpu-01 all 1h")
    assert text.startswith("Nothing was claimed")
    assert "Claimed: gpu-01 GPU 1 by <@U0BOB> until" in text
    assert [one.by for one in await held(bot)] == ["U0BOB"]


async def test_a_second_claim_of_the_same_person_moves_the_end(bot, workspace):
    await bot.idle((C,))
    await ask(workspace, "/gpu-claim", "gpu-01 0 for 4h training")
    assert (await ask(workspace, "/gpu-claim", "gpu-01 gpu 0 1h")).startswith("Your claim of gpu-01 GPU 0 now ends")
    (claim,) = await held(bot)
    assert claim.reason == "training"
    assert timedelta(0) < claim.until - clock.now() <= HOUR


async def test_only_the_holder_or_an_approver_releases(bot, workspace):
    await bot.idle((C,))
    await ask(workspace, "/gpu-claim", "gpu-01 0 4h")
    assert "Only the one who claimed it" in await ask(workspace, "/gpu-release", "gpu-01 0", person="bob")
    assert await ask(workspace, "/gpu-release", "gpu-01 0", person="carol") == (
        "Released: gpu-01 GPU 0. May be called free from now on"
    )
    assert await ask(workspace, "/gpu-release", "gpu-01 0") == "Nobody has claimed gpu-01 GPU 0"


async def test_a_claim_whose_time_is_over_stands_in_nobodys_way(bot, workspace):
    await bot.idle((C,))
    await claimed(bot, until=-MINUTE, by="U0BOB")
    assert (await ask(workspace, "/gpu-claim", "gpu-01 0 1h")).startswith("Claimed:")
    assert [one.by for one in await held(bot)] == ["U0ALICE"]


# --- the question ---------------------------------------------------------------------------------------------------


async def test_the_holder_is_asked_in_a_direct_message_once(bot, workspace):
    await bot.idle((C,))
    await claimed(bot)
    message = await question(bot, workspace)
    assert message.text.startswith("Your claim of gpu-01 GPU 0 ends <!date^")
    await bot.claims.look()
    await sent(bot, "notice")
    assert len(await bot.rows("notice")) == 1


@pytest.mark.parametrize(
    ("button", "says", "longer"),
    [("Keep 4 h", "You keep gpu-01 GPU 0 until", 4 * HOUR), ("Until tomorrow", "You keep gpu-01 GPU 0 until", MINUTE)],
)
async def test_the_holder_keeps_it_by_a_button_and_a_second_press_changes_nothing(bot, workspace, button, says, longer):
    await bot.idle((C,))
    before = await claimed(bot)
    message = await question(bot, workspace)
    alice = workspace.person("alice")
    assert (await answer(workspace, await alice.press(message, button))).startswith(says)
    await workspace.until(lambda: message.text.startswith(says))
    (claim,) = await held(bot)
    assert claim.until - before.until >= longer
    again = await alice.press(message, button, version=0)
    assert (await answer(workspace, again)).startswith("This was answered already")
    assert (await held(bot))[0].until == claim.until


async def test_the_holder_releases_it_by_a_button(bot, workspace):
    await claimed(bot)
    await bot.idle((C,))
    message = await question(bot, workspace)
    await workspace.person("alice").press(message, "Release")
    await workspace.until(lambda: message.text.startswith("You released gpu-01 GPU 0"))
    assert await held(bot) == []
    await sent(bot)


async def test_without_an_answer_it_ends_the_message_says_so_and_a_late_press_is_answered(bot, workspace):
    await bot.idle((H,))
    claim = await claimed(bot)
    message = await question(bot, workspace)
    await move_end(bot, replace(claim, asks=1), -MINUTE)
    await bot.claims.look()
    await workspace.until(lambda: message.text.startswith("Your claim of gpu-01 GPU 0 ended <!date^"))
    seen = await workspace.person("alice").press(message, "Keep 4 h", version=0)
    await workspace.until(lambda: seen.ephemerals)
    assert seen.ephemerals[0].text.startswith("This claim is over since <!date^")
    assert await held(bot) == []


async def test_after_a_kept_claim_the_holder_is_asked_again_in_a_new_message(bot, workspace):
    await bot.idle((C,))
    await claimed(bot)
    message = await question(bot, workspace)
    await workspace.person("alice").press(message, "Keep 4 h")
    await workspace.until(lambda: message.text.startswith("You keep"))
    (kept,) = await held(bot)
    moved = replace(kept, until=clock.now() + MINUTE)
    await bot.store.write(lambda transaction: claims.save(transaction.connection, moved))
    await bot.claims.look()
    await workspace.until(lambda: len(workspace.direct_message("U0ALICE").cards) == 2)


async def test_a_person_who_takes_no_direct_message_keeps_nothing_waiting_for_ever(bot, workspace):
    workspace.faults.refuse("chat.postMessage", "messages_tab_disabled", times=None)
    await bot.idle((H,))
    claim = await claimed(bot)
    await bot.claims.look()

    async def refused():
        return [row.last_error for row in await bot.rows("notice")] != [None]

    await until(refused, 20)
    await move_end(bot, replace(claim, asks=1), -2 * HOUR)
    await bot.claims.look()

    async def dropped():
        return [row.state for row in await bot.rows("notice")] == ["dropped"]

    assert await until(dropped, 20)


async def test_somebody_of_the_bots_own_host_claims_and_is_not_asked(bot, workspace):
    await bot.idle((C,))
    await claimed(bot, by="host:root")
    await bot.claims.look()
    assert await bot.rows("notice") == []


# --- from the card --------------------------------------------------------------------------------------------------


async def claim_dialog(workspace, card, **values):
    who = workspace.person("alice")
    seen = await who.choose(card, "card_menu", "Claim…")
    assert seen.acked, seen.failure
    await workspace.until(lambda: who.modal and who.modal.callback_id == "claim")
    await who.submit(values)
    await workspace.until(lambda: who.modal is None or who.modal.errors or "One moment" not in str(who.modal.blocks))
    return who.modal


@pytest.mark.parametrize(
    ("values", "indexes", "length"),
    [
        ({}, [0], 4 * HOUR),
        ({"gpus": "GPU 1", "length": "1 hour"}, [1], HOUR),
        ({"gpus": "All 2 of this card", "custom": "90m"}, [0, 1], 90 * MINUTE),
    ],
)
async def test_a_gpu_is_claimed_from_its_card(bot, workspace, values, indexes, length):
    await bot.idle((C, C))
    await sent(bot)
    card = workspace.channel("gpu-candidates").cards[0]
    view = await claim_dialog(workspace, card, reason="<!channel> tuning", **values)
    assert "Claimed: gpu-01 GPU" in str(view.blocks)
    found = await held(bot)
    assert [one.gpu_index for one in found] == indexes
    assert {one.reason for one in found} == {"<!channel> tuning"}
    assert all(abs(one.until - clock.now() - length) < MINUTE for one in found)
    await workspace.until(lambda: "claimed* by <@U0ALICE>" in card.text)


async def test_a_dialog_that_is_sent_late_says_that_the_card_is_over(bot, workspace):
    """It stood open while the job came back."""
    await bot.idle((C,))
    await sent(bot)
    card = workspace.channel("gpu-candidates").cards[0]
    alice = workspace.person("alice")
    await alice.choose(card, "card_menu", "Claim…")
    await workspace.until(lambda: alice.modal and alice.modal.callback_id == "claim")
    await bot.sample((H,))
    await workspace.until(lambda: card.text.startswith("OVER"))
    await alice.submit({})
    await workspace.until(lambda: alice.modal and "older than the last decision" in str(alice.modal.blocks))
    assert await held(bot) == []


async def test_the_card_of_a_stall_says_who_has_claimed_gpus_of_its_node(bot, workspace):
    await bot.idle((H,))
    await claimed(bot, until=3 * HOUR)
    await bot.found(subject="gpu-01/chat")
    await sent(bot)
    (card,) = workspace.channel("gpu-oncall").cards
    assert "Claimed: gpu-01 GPU 0 by <@U0ALICE> until <!date^" in card.text


async def test_times_of_day_are_on_the_channels_clock_whatever_slack_knows_of_the_person(bot, workspace):
    """Nobody is asked for a time zone, so that none can be missing; the answer shows the reader's own."""
    await bot.idle((C,))
    text = await ask(workspace, "/gpu-claim", "gpu-01 0 until=18:00")
    assert "18:00 UTC>" in text
    (claim,) = await held(bot)
    assert (claim.until.hour, claim.until.minute) == (18, 0)
    assert workspace.calls_of("users.info") == []


async def test_a_claim_that_is_made_longer_by_command_answers_the_question(bot, workspace):
    await bot.idle((C,))
    await claimed(bot)
    message = await question(bot, workspace)
    assert (await ask(workspace, "/gpu-claim", "gpu-01 0 4h")).startswith("Your claim of gpu-01 GPU 0 now ends")
    await workspace.until(lambda: message.text.startswith("You keep gpu-01 GPU 0 until"))
