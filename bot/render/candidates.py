"""The answer to /gpu-candidates: what is free now, and what is not quite."""

from collections.abc import Sequence
from datetime import datetime

from bot.offer import Offer, Offered
from bot.render import message
from bot.render.claims import claim_lines
from bot.render.message import Message
from bot.render.values import because, instant, length, memory, utc
from bot.render.words import Mrkdwn, Words, code

COLUMNS = ("node", "gpu", "state", "model", "uuid")


def candidates(words: Words, offered: Sequence[Offered], nodes: Sequence[str], now: datetime) -> Message:
    """`nodes` are those that were asked."""
    head = _head(words, offered, nodes)
    foot = words.say("candidates.foot", at=instant(now))
    blocks = [message.section(head, words.say("answer.more"))]
    rows = [_row(words, one) for one in offered]
    fitting = message.rows_that_fit(rows)
    if rows:
        names = [words.plain(f"column.{column}") for column in COLUMNS]
        blocks.append(message.table([names, *rows[:fitting]]))
    left_out = len(rows) - fitting
    notes = [words.counted("candidates.left_out", left_out)] if left_out else []
    if any(one.offer is Offer.BASELINE_ONLY for one in offered):
        notes.append(words.say("candidates.baseline"))
    notes += claim_lines(words, [one.claim for one in offered if one.claim])
    blocks += [message.context(note) for note in [*notes, foot]]
    lines = [*head, foot, *notes, *(_line(words, one) for one in offered)]
    return message.message(lines, blocks, words.say("answer.more"))


def _head(words: Words, offered: Sequence[Offered], nodes: Sequence[str]) -> list[Mrkdwn]:
    if not nodes:
        return [words.say("candidates.no_nodes")]
    where = words.say("candidates.of_node", node=nodes[0]) if len(nodes) == 1 else _of_nodes(words, len(nodes))
    counts = {offer: sum(one.offer is offer for one in offered) for offer in Offer}
    free = words.counted("candidates.free", counts[Offer.FREE], where=where)
    others = [
        words.say(f"candidates.{offer}", count=count)
        for offer, count in counts.items()
        if count and offer is not Offer.FREE
    ]
    return [free, *others]


def _of_nodes(words: Words, count: int) -> Mrkdwn:
    return words.say("candidates.of_nodes", count=count)


def _row(words: Words, one: Offered) -> list[str]:
    return [one.node, str(one.index), state(words, one), one.model or words.plain("gpu.model_unknown"), one.uuid]


def _line(words: Words, one: Offered) -> Mrkdwn:
    return words.say(
        "candidates.line", node=one.node, index=one.index, state=state(words, one), uuid=code(one.uuid, 60)
    )


def state(words: Words, one: Offered) -> str:
    """Plain text: why it may be taken, or why not yet."""
    if one.again is not None:
        return words.plain("state.again", count=max(one.again, 0), windows=one.windows)
    if one.offer is Offer.CLAIMED:  # a claim that ran out between two looks says no time
        return words.plain("state.claimed", until=utc(one.claim.until)) if one.claim else words.plain("because.claimed")
    return words.plain(
        f"state.{one.offer}",
        idle=length(one.idle_seconds),
        why=because(words, one.because, one.detail),
        memory=memory(one.memory_bytes or 0),
        until=utc(one.until) if one.until else "-",
    )
