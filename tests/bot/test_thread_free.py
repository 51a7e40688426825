"""A line in a card's thread that calls a GPU free is asked again when it leaves, like the card."""

from bot.store.outbox import RowKind, RowState
from tests.bot.outward import LAST, C, H, sent, until
from tests.build import observation


async def others_become_free(bot, others):
    """The card of GPU 0 is in Slack, and nothing leaves while the others become free as well."""
    bot.start()
    await bot.idle((C, *[H] * others))
    await sent(bot)
    await bot.stop()
    everywhere = [C] * (1 + others)
    for number in range(LAST + 1, LAST + 4):
        await bot.sample(everywhere, number)
        await bot.report(observation(number, everywhere))


async def lines_left(bot):
    rows = await bot.rows(RowKind.THREAD)
    on_their_way = (RowState.WAITING, RowState.SENDING)
    return rows and not [row for row in rows if row.state in on_their_way] and rows


async def test_a_gpu_that_is_taken_before_the_line_is_sent_is_not_called_free_there(outbox_bot, candidates):
    await others_become_free(outbox_bot, 1)
    await outbox_bot.sample((C, H), LAST + 3)
    outbox_bot.start()
    await until(lambda: lines_left(outbox_bot))
    said = [line.text for line in candidates.replies(candidates.cards[0])]
    assert said == ["GPU 1 is no longer free: it was seen in use just now (memory in use)"]


async def test_a_gpu_that_is_free_is_said_there(outbox_bot, candidates):
    await others_become_free(outbox_bot, 1)
    outbox_bot.start()
    await sent(outbox_bot, RowKind.THREAD)
    assert [line.text for line in candidates.replies(candidates.cards[0])] == ["GPU 1 is free"]


async def test_of_two_that_became_free_only_the_one_that_still_is_is_said(outbox_bot, candidates):
    await others_become_free(outbox_bot, 2)
    await outbox_bot.sample((C, H, C), LAST + 3)
    outbox_bot.start()
    await until(lambda: lines_left(outbox_bot))
    said = [line.text for line in candidates.replies(candidates.cards[0])]
    assert said[0] == "GPU 2 is free"
    assert [one for one in said if one.startswith("GPU 1")] == [said[-1]]
    assert "no longer free" in said[-1]
