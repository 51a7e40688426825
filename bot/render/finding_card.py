"""An incident that is one finding, as its one card: what, since when, why we say so, what was known before."""

from collections.abc import Iterable, Sequence

from bot.incident import Finding, Incident, Kind, Said, Tried
from bot.judge.verdict import Presence
from bot.render import message
from bot.render.claims import claim_lines
from bot.render.drawing import EVIDENCE, NOT_A_STALL, Drawing, buttons, last_note, notes_of_people
from bot.render.message import Message
from bot.render.values import instant, length, utc
from bot.render.words import Mrkdwn, Words, escape

MOST_LINES = 20


def finding_card(words: Words, drawing: Drawing, finding: Finding) -> Message:
    incident = drawing.incident
    title = title_of(words, incident, finding)
    lines = _lines(words, incident, finding)
    closed = words.say("note.recovered", at=instant(incident.closed_at or drawing.now), length=lasted(incident))
    claimed = [] if incident.closed_at else claim_lines(words, drawing.claims)
    notes = [*notes_of_people(words, incident), *claimed, *last_note(words, drawing, closed)]
    more = words.say("answer.more")
    blocks = [message.header(title), message.section(lines, more), *(message.context(note) for note in notes)]
    menu = _menu(incident, finding) if incident.kind is Kind.RUNNER else ()
    if pressed := buttons(words, drawing, menu, subject_of(words, incident)):
        blocks.append(message.actions(pressed))
    return message.message([escape(title), *notes, *lines], blocks, more)


def _menu(incident: Incident, finding: Finding) -> tuple[str, ...]:
    if incident.disputed_by:
        return (EVIDENCE,)
    remedies = finding.remedies if finding.presence is Presence.PRESENT else ()
    return (*map(str, remedies), EVIDENCE, NOT_A_STALL)


def title_of(words: Words, incident: Incident, finding: Finding) -> str:
    """Plain text, with the facts: it is what a lock screen shows."""
    subject, what = subject_of(words, incident), words.plain(f"what.{incident.what}")
    if incident.closed_at:
        return words.plain("title.recovered", subject=subject, what=what)
    if finding.presence is not Presence.PRESENT:
        return words.plain("title.not_seen", subject=subject, what=what)
    instants = {name: utc(at) for name, at in finding.title.instants.items()}
    values = {"subject": subject, **finding.title.texts, **_lengths(finding.title), **instants}
    return words.plain(finding.title.key, **values)


def subject_of(words: Words, incident: Incident) -> str:
    """Plain text: the node, the node and its runner, or in words the fleet or the bot."""
    if not incident.node:
        return words.plain(f"subject.{incident.subject}") if incident.subject in ("fleet", "bot") else incident.subject
    return f"{incident.node} {incident.runner}" if incident.runner else incident.node


def _tried(words: Words, one: Tried) -> Mrkdwn:
    action, state = words.plain(f"remedy.action.{one.action}"), words.plain(f"remedy.state.{one.state}")
    return words.say("remedy.tried", action=action, number=one.number, state=state)


def lasted(incident: Incident) -> str:
    since = incident.finding.since if incident.finding else incident.opened_at
    return length(((incident.closed_at or incident.opened_at) - since).total_seconds())


def sentence(words: Words, said: Said) -> Mrkdwn:
    """An incident may be older than this version, and have a sentence that is no longer in the catalogue."""
    if said.key not in words.sentences:
        return words.say("evidence.of_another_version", what=said.key)
    instants = {name: instant(at) for name, at in said.instants.items()}
    parts = {"parts": Mrkdwn(" · ".join(sentence(words, one) for one in said.parts))} if said.parts else {}
    return words.say(said.key, **said.texts, **_lengths(said), **instants, **parts)


def _lengths(said: Said) -> dict[str, str]:
    return {name: length(seconds) for name, seconds in said.seconds.items()}


def _lines(words: Words, incident: Incident, finding: Finding) -> list[Mrkdwn]:
    is_over = incident.closed_at is not None
    key = "finding.was" if is_over else "finding.since"
    lines = [words.say(key, since=instant(finding.since), what=words.plain(f"what.{finding.what}"))]
    if finding.presence is not Presence.PRESENT and finding.changed_at and not is_over:
        lines.append(words.say("finding.not_seen", at=instant(finding.changed_at)))
    shown = [one for one in finding.lines[:MOST_LINES] if not (is_over and one.key in _ONLY_WHILE_OPEN)]
    lines += _listed(words, shown)
    if finding.last_known:
        lines += [words.say("finding.last_known"), *_listed(words, finding.last_known[:MOST_LINES])]
    lines += [_tried(words, one) for one in incident.tried]
    return [*_ended(words, incident.ending), *lines]


def _ended(words: Words, ending: Sequence[Said]) -> list[Mrkdwn]:
    """What ended it, and below it what else is known of the end."""
    if not ending:
        return []
    return [words.say("finding.ended", line=sentence(words, ending[0])), *_listed(words, ending[1:MOST_LINES])]


def _listed(words: Words, lines: Iterable[Said]) -> list[Mrkdwn]:
    return [words.say("finding.line", line=sentence(words, one)) for one in lines]


# Once it is over, nobody is to do anything any more; and what was lost is told in all.
_ONLY_WHILE_OPEN = frozenset({"remedy.restart", "remedy.reboot", "remedy.cancel", "runner.lost"})
