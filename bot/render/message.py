"""What Slack is given: blocks within its documented limits, and one text that holds the same facts."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ContextBlock,
    HeaderBlock,
    InteractiveElement,
    MarkdownTextObject,
    PlainTextObject,
    RawTextObject,
    SectionBlock,
    TableBlock,
)

from bot.render.words import Mrkdwn, clean

LONGEST_TEXT = 3900  # Slack advises 4,000 and cuts at 40,000
LONGEST_SECTION = 2900  # of 3,000
LONGEST_DETAILS = 6000  # in all sections together: Slack refuses messages of about 11,000 characters
LONGEST_HEADER = 150
MOST_BLOCKS = 50
MOST_ROWS = 60  # of 100
LONGEST_TABLE = 9000  # of 10,000 characters in all tables of a message


class Message(msgspec.Struct, frozen=True):
    """`text` is what screen readers and lock screens get, and all that is shown where blocks are refused."""

    text: str
    blocks: list[dict[str, Any]]


def message(lines: Sequence[Mrkdwn], blocks: Sequence[Block], more: Mrkdwn) -> Message:
    """The text is as many of the lines as fit, then `more`."""
    return Message(joined(lines, LONGEST_TEXT, more), [block.to_dict() for block in blocks[:MOST_BLOCKS]])


def noted(given: Message, notes: Sequence[Mrkdwn], more: Mrkdwn) -> Message:
    """The message with notes right below its first line."""
    if not notes:
        return given
    first, *rest = [Mrkdwn(line) for line in given.text.split("\n")]
    text = joined([first, *notes, *rest], LONGEST_TEXT, more)
    blocks = (
        [*given.blocks[:1], *(context(note).to_dict() for note in notes), *given.blocks[1:]] if given.blocks else []
    )
    return Message(text, blocks)


def joined(lines: Iterable[Mrkdwn], longest: int, more: Mrkdwn) -> Mrkdwn:
    """Whole lines only: one that is cut could lose the end of a date or of an escape."""
    kept: list[str] = []
    left = longest - len(more) - 1
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            kept.append(more)
            break
        kept.append(line)
    return Mrkdwn("\n".join(kept))


def sections_that_fit(texts: Sequence[str]) -> int:
    """How many of the texts one message may show, each in a section of its own."""
    left = LONGEST_DETAILS
    for number, text in enumerate(texts):
        left -= min(len(text), LONGEST_SECTION)
        if left < 0:
            return number
    return len(texts)


def header(text: str) -> Block:
    return HeaderBlock(text=PlainTextObject(text=clean(text, LONGEST_HEADER), emoji=False))


def section(lines: Sequence[Mrkdwn], more: Mrkdwn) -> Block:
    return SectionBlock(text=_markdown(joined(lines, LONGEST_SECTION, more)))


def context(text: Mrkdwn) -> Block:
    return ContextBlock(elements=[_markdown(text)])


def actions(elements: Sequence[InteractiveElement]) -> Block:
    return ActionsBlock(elements=list(elements))


def table(rows: Sequence[Sequence[str]]) -> Block:
    """The first row is the head. Nothing in a cell is read as markup."""
    return TableBlock(rows=[[RawTextObject(text=clean(cell) or "-") for cell in row] for row in rows])


def rows_that_fit(rows: Sequence[Sequence[str]]) -> int:
    """How many of the rows one table may hold."""
    left = LONGEST_TABLE
    for number, row in enumerate(rows[:MOST_ROWS]):
        left -= sum(len(clean(cell)) for cell in row)
        if left < 0:
            return number
    return min(len(rows), MOST_ROWS)


def _markdown(text: Mrkdwn) -> MarkdownTextObject:
    return MarkdownTextObject(text=text, verbatim=True)
