"""Many incidents on one card: free GPUs of a fleet, nodes that cannot be seen, or a storm."""

from collections.abc import Callable, Sequence

from bot.incident import CardGpu, Incident, Kind
from bot.render import message
from bot.render.candidate_card import Shown, shown_state
from bot.render.drawing import SHOW_ALL, Drawing, buttons, last_note, notes_of_people
from bot.render.finding_card import lasted, subject_of
from bot.render.message import Message
from bot.render.values import index_ranges, instant, utc
from bot.render.words import Words, clean, escape

Row = list[str]
MOST_LINES = 30


def group_card(words: Words, drawing: Drawing) -> Message:
    """The newest facts stand in the table; what does not fit is counted, and behind a button."""
    incident = drawing.incident
    title = group_title(words, drawing)
    rows = group_rows(words, drawing)
    fitting = message.rows_that_fit(rows)
    blocks = [message.header(title)]
    if rows:
        blocks.append(message.table([column_names(words, incident.kind), *rows[:fitting]]))
    left_out = len(rows) - fitting
    closed = words.say("note.group_over", at=instant(incident.closed_at or drawing.now), length=lasted(incident))
    notes = [words.say(f"group.{incident.kind}", over=_over(drawing)), *notes_of_people(words, incident)]
    if left_out:
        notes.insert(0, words.counted("group.more", left_out))
    notes += last_note(words, drawing, closed)
    blocks += [message.context(note) for note in notes]
    if pressed := buttons(words, drawing, (SHOW_ALL,) if left_out else (), subject_of(words, incident)):
        blocks.append(message.actions(pressed))
    lines = [escape(" · ".join(clean(cell) for cell in row)) for row in rows[:MOST_LINES]]
    return message.message([escape(title), *notes, *lines], blocks, words.say("answer.more"))


def group_title(words: Words, drawing: Drawing) -> str:
    """Plain text."""
    incident = drawing.incident
    if incident.closed_at:
        return words.plain(
            "title.recovered", subject=words.plain("subject.fleet"), what=words.plain(f"what.{incident.kind}")
        )
    if incident.kind is not Kind.FLEET:
        return words.plain_counted(f"title.{incident.kind}", incident.members_open)
    shown = [_state(drawing, gpu) for member in _open(drawing) for gpu in member.gpus]
    status = Shown.FREE if Shown.FREE in shown else Shown.PENDING if Shown.PENDING in shown else Shown.NOT_JUDGED
    nodes = words.plain_counted("count.nodes", len(_open(drawing)))
    return words.plain_counted(f"title.fleet_{status}", shown.count(status), nodes=nodes)


def group_rows(words: Words, drawing: Drawing) -> list[Row]:
    """One row of plain text for each incident on the card that is open."""
    row = _ROWS.get(drawing.incident.kind, _finding_row)
    return [row(words, drawing, member) for member in _open(drawing)]


def column_names(words: Words, kind: Kind) -> list[str]:
    return [words.plain(f"column.{name}") for name in _COLUMNS[kind]]


def _open(drawing: Drawing) -> Sequence[Incident]:
    return [member for member in drawing.members if not member.closed_at]


def _over(drawing: Drawing) -> int:
    return max(drawing.incident.members - drawing.incident.members_open, 0)


def _state(drawing: Drawing, gpu: CardGpu) -> Shown:
    return shown_state(gpu, drawing.free_now)


def _node_row(words: Words, drawing: Drawing, member: Incident) -> Row:
    by_state = {kind: [gpu.index for gpu in member.gpus if _state(drawing, gpu) is kind] for kind in Shown}
    states = [
        words.plain(f"fleet.{kind}", indexes=index_ranges(indexes))
        for kind, indexes in by_state.items()
        if indexes and kind is not Shown.LEFT
    ]
    models = sorted({gpu.model for gpu in member.gpus if gpu.model})
    since = min((gpu.since for gpu in member.gpus), default=member.opened_at)
    return [member.node, "; ".join(states) or "-", ", ".join(models) or words.plain("gpu.model_unknown"), utc(since)]


def _finding_row(words: Words, drawing: Drawing, member: Incident) -> Row:
    since = member.finding.since if member.finding else member.opened_at
    return [subject_of(words, member), words.plain(f"what.{member.what}"), utc(since)]


_ROWS: dict[Kind, Callable[[Words, Drawing, Incident], Row]] = {Kind.FLEET: _node_row}
_COLUMNS: dict[Kind, tuple[str, ...]] = {
    Kind.FLEET: ("node", "gpus", "model", "since"),
    Kind.MANY_BLIND: ("node", "what", "since"),
    Kind.STORM: ("subject", "what", "since"),
}
