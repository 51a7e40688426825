"""A candidate incident as its one card: what is free on the node, since when, and why we say so."""

from collections.abc import Callable, Sequence, Set
from enum import StrEnum

from slack_sdk.models.blocks import Block

from bot.incident import CardGpu, CardState
from bot.judge.track import Evidence, LastHeld
from bot.judge.verdict import Because
from bot.render import message
from bot.render.drawing import CLAIM, IN_USE, WHY, Drawing, buttons, last_note, notes_of_people
from bot.render.message import Message
from bot.render.values import (
    because,
    bytes_or_not_read,
    index_ranges,
    instant,
    length,
    percent,
    person,
    process,
)
from bot.render.words import Mrkdwn, Words, code, escape

IN_DETAIL = 8  # GPUs with a section of their own; further ones are named in one line


class Shown(StrEnum):
    """What the card says of one GPU, in the order of the card. Only FREE may be taken at its word."""

    FREE = "free"
    PENDING = "pending"  # confirmed, and its freshness cannot be told this moment
    NOT_JUDGED = "not_judged"
    DISPUTED = "disputed"
    LEFT = "left"


def candidate_card(words: Words, drawing: Drawing) -> Message:
    order = list(Shown)
    gpus = sorted(drawing.incident.gpus, key=lambda gpu: (order.index(_shown(drawing, gpu)), gpu.index))
    texts = [_gpu(words, drawing, gpu) for gpu in gpus]
    title = _title(words, drawing)
    notes = _notes(words, drawing)
    more = words.say("card.more")
    in_detail = message.sections_that_fit(texts[:IN_DETAIL])
    blocks: list[Block] = [message.header(title), *(message.section([text], more) for text in texts[:in_detail])]
    if gpus[in_detail:]:
        blocks.append(message.section(_in_short(words, drawing, gpus[in_detail:]), more))
    blocks += [message.context(note) for note in notes]
    menu = (WHY,) if drawing.incident.disputed_by else (WHY, CLAIM, IN_USE)
    if pressed := buttons(words, drawing, menu, drawing.incident.node):
        blocks.append(message.actions(pressed))
    return message.message([escape(title), *notes, *texts], blocks, more)


def _shown(drawing: Drawing, gpu: CardGpu) -> Shown:
    return shown_state(gpu, drawing.free_now)


def shown_state(gpu: CardGpu, free_now: Set[str]) -> Shown:
    if gpu.state is CardState.CONFIRMED:
        return Shown.FREE if gpu.uuid in free_now else Shown.PENDING
    return Shown(gpu.state.value)


# --- the title ------------------------------------------------------------------------------------------------------


def _title(words: Words, drawing: Drawing) -> str:
    shown = [_shown(drawing, gpu) for gpu in drawing.incident.gpus]
    counts = [words.plain_counted(f"count.{kind}", shown.count(kind)) for kind in Shown if kind in shown]
    status = next((kind for kind in Shown if kind in shown), Shown.LEFT)
    return words.plain(f"title.{status}", node=drawing.incident.node, counts=", ".join(counts))


# --- one GPU --------------------------------------------------------------------------------------------------------


def _gpu(words: Words, drawing: Drawing, gpu: CardGpu) -> Mrkdwn:
    lines = _LINES[_shown(drawing, gpu)](words, drawing, gpu)
    model = code(gpu.model, 60) if gpu.model is not None else words.say("gpu.model_unknown")
    return Mrkdwn("\n".join([*lines, words.say("gpu.what", model=model, uuid=code(gpu.uuid, 60))]))


def _free(words: Words, drawing: Drawing, gpu: CardGpu) -> list[Mrkdwn]:
    first = words.say("gpu.free", index=gpu.index, since=instant(gpu.since), idle=_idle(gpu))
    return [first, _conditions(words, gpu), _last_held(words, gpu.last_held)]


def _pending(words: Words, drawing: Drawing, gpu: CardGpu) -> list[Mrkdwn]:
    first = words.say("gpu.pending", index=gpu.index, since=instant(gpu.since), idle=_idle(gpu))
    return [first, _conditions(words, gpu), _last_held(words, gpu.last_held)]


def _not_judged(words: Words, drawing: Drawing, gpu: CardGpu) -> list[Mrkdwn]:
    why = because(words, gpu.because, gpu.detail)
    first = words.say("gpu.not_judged", index=gpu.index, at=instant(gpu.changed_at), why=why)
    before = words.say("gpu.free_before", since=instant(gpu.since), idle=_idle(gpu))
    return [first, before, _last_held(words, gpu.last_held)]


def _disputed(words: Words, drawing: Drawing, gpu: CardGpu) -> list[Mrkdwn]:
    by = person(drawing.incident.disputed_by or "?")
    return [words.say("gpu.disputed", index=gpu.index, by=by, at=instant(gpu.changed_at))]


def _left(words: Words, drawing: Drawing, gpu: CardGpu) -> list[Mrkdwn]:
    if gpu.because is Because.CLAIMED:
        by = person(gpu.detail)
        return [words.say("gpu.claimed", index=gpu.index, at=instant(gpu.changed_at), by=by, idle=_idle(gpu))]
    why = because(words, gpu.because, gpu.detail)
    return [words.say("gpu.left", index=gpu.index, at=instant(gpu.changed_at), why=why, idle=_idle(gpu))]


_LINES: dict[Shown, Callable[[Words, Drawing, CardGpu], list[Mrkdwn]]] = {
    Shown.FREE: _free,
    Shown.PENDING: _pending,
    Shown.NOT_JUDGED: _not_judged,
    Shown.DISPUTED: _disputed,
    Shown.LEFT: _left,
}


def _idle(gpu: CardGpu) -> str:
    """Judged candidate windows only."""
    return length(gpu.streak * gpu.window_seconds)


def _conditions(words: Words, gpu: CardGpu) -> Mrkdwn:
    return words.say(
        "gpu.conditions",
        utilization=_over_windows(words, gpu.evidence, lambda seen: percent(words, seen.utilization_max_percent)),
        memory=_over_windows(words, gpu.evidence, lambda seen: bytes_or_not_read(words, seen.memory_max_bytes)),
        processes=_over_windows(words, gpu.evidence, lambda seen: str(seen.processes)),
        window=length(gpu.window_seconds),
    )


def _over_windows(words: Words, evidence: Sequence[Evidence], value: Callable[[Evidence], str]) -> str:
    return ", ".join(value(seen) for seen in evidence) or words.plain("value.not_read")


def _last_held(words: Words, held: LastHeld | None) -> Mrkdwn:
    if held is None:
        return words.say("held.never")
    if held.process is None:
        return words.say("held.nobody_listed", at=instant(held.closed_at))
    return words.say("held.by", at=instant(held.closed_at), process=process(words, held.process))


def _in_short(words: Words, drawing: Drawing, gpus: Sequence[CardGpu]) -> list[Mrkdwn]:
    by_kind = {kind: [gpu.index for gpu in gpus if _shown(drawing, gpu) is kind] for kind in Shown}
    return [
        words.say(f"also.{kind}", indexes=Mrkdwn(index_ranges(indexes)), count=len(indexes))
        for kind, indexes in by_kind.items()
        if indexes
    ]


# --- below the GPUs -------------------------------------------------------------------------------------------------


def _notes(words: Words, drawing: Drawing) -> list[Mrkdwn]:
    incident = drawing.incident
    idle = length(sum(gpu.streak * gpu.window_seconds for gpu in incident.gpus))
    closed = words.say("note.closed", at=instant(incident.closed_at or drawing.now), idle=idle)
    return [*notes_of_people(words, incident), *last_note(words, drawing, closed)]
