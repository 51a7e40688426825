"""One line in the thread of a card."""

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from bot.incident import CardState, GpuChange
from bot.judge.verdict import Because
from bot.render.drawing import people
from bot.render.message import LONGEST_TEXT, Message, joined
from bot.render.values import because, index_ranges
from bot.render.words import Mrkdwn, Words, clean

LONGEST_WORD = 300  # of a person, or of a node


def line(words: Words, key: str, values: Mapping[str, str]) -> Message:
    """A line is a new message: it mentions those who must hear of it, and nobody else; who pressed is on the card."""
    if changes := _changes(key, values):
        return Message(joined([_of_gpus(words, one) for one in changes], LONGEST_TEXT, words.say("card.more")), [])
    shown: dict[str, object] = {}
    if "mention" in values:
        shown["people"] = people(values["mention"].split())
    if "verdict" in values:
        shown["verdict"] = words.plain(f"what.{values['verdict']}")
    if "text" in values:  # a person's word, or a node's
        shown["text"] = words.say("value.text", text=clean(values["text"], LONGEST_WORD))
    return Message(words.say(key, **shown), [])


def that_holds(key: str, values: Mapping[str, str], free: Collection[int]) -> Mapping[str, str] | None:
    """The values without the GPUs that they call free and that are not, by index; None where nothing else is left."""
    changes = _changes(key, values)
    if not changes:
        return values
    kept = [_without(one, free) if one.state is CardState.CONFIRMED else one for one in changes]
    kept = [one for one in kept if one.indexes]
    return {"changes": msgspec.json.encode(kept).decode()} if kept else None


def _without(change: GpuChange, free: Collection[int]) -> GpuChange:
    return replace(change, indexes=tuple(index for index in change.indexes if index in free))


def _changes(key: str, values: Mapping[str, str]) -> Sequence[GpuChange]:
    if "changes" in values:
        return msgspec.json.decode(values["changes"], type=tuple[GpuChange, ...])
    if "index" not in values:
        return ()
    # a row of a version that had a line for each GPU
    state, why = CardState(key.removeprefix("thread.")), Because(values["because"])
    return (GpuChange(state, (int(values["index"]),), why, values.get("detail", "")),)


def _of_gpus(words: Words, change: GpuChange) -> Mrkdwn:
    """GPUs that changed in the same way are named together, each kind of change on a line of its own."""
    indexes = sorted(set(change.indexes))
    why = because(words, change.because, change.detail)
    return words.counted(f"thread.{change.state}", len(indexes), index=Mrkdwn(index_ranges(indexes)), why=why)
