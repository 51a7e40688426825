"""A request for a remedy as its card: what would be killed, who decided, and the proof as a list that fills in."""

from collections.abc import Iterator

from slack_sdk.models.blocks import ButtonElement, ConfirmObject, InteractiveElement, PlainTextObject

from bot.judge.verdict import Said
from bot.remedy.blockers import UNREADABLE
from bot.remedy.model import ProofStep, Remedy, State
from bot.render import message
from bot.render.drawing import Drawing, button, label, people
from bot.render.finding_card import sentence
from bot.render.message import Message
from bot.render.values import instant, length, person
from bot.render.words import Mrkdwn, Words, clean, escape
from wire.orders import Action

APPROVE, DENY, STOP = "remedy_approve", "remedy_deny", "remedy_stop"
MOST_PROCESSES = 13  # a plan has room for 12, and for how many it leaves out


def remedy_card(words: Words, drawing: Drawing, remedy: Remedy) -> Message:
    title = words.plain(f"title.remedy.{remedy.state}", subject=_subject(remedy), action=_action(words, remedy))
    lines = list(remedy_lines(words, remedy))
    notes = list(_notes(words, drawing, remedy))
    more = words.say("answer.more")
    blocks = [message.header(title), message.section(lines, more), *(message.context(note) for note in notes)]
    if pressed := remedy_buttons(words, drawing, remedy):
        blocks.append(message.actions(pressed))
    return message.message([escape(title), *notes, *lines], blocks, more)


def _subject(remedy: Remedy) -> str:
    return f"{remedy.node} {remedy.runner}" if remedy.runner else remedy.node


def _action(words: Words, remedy: Remedy) -> str:
    return words.plain(f"remedy.action.{remedy.action}")


# --- the facts ------------------------------------------------------------------------------------------------------


def remedy_lines(words: Words, remedy: Remedy) -> Iterator[Mrkdwn]:
    yield from _asked(words, remedy)
    if remedy.is_own_host:
        yield words.say("remedy.own_host")
    if not remedy.sent_at and not remedy.has_ended:
        yield from kill_list(words, remedy.shown)
        yield from (words.say("remedy.accepted", what=words.plain(f"blocker.{one}.name")) for one in remedy.accepted)
    yield from _decided(words, remedy)
    yield from (words.say("finding.ended", line=sentence(words, one)) for one in remedy.because)
    # Nobody waits for anything any more once it has ended.
    yield from (_step(words, one) for one in remedy.proof if one.done_at or not remedy.has_ended)


def _asked(words: Words, remedy: Remedy) -> Iterator[Mrkdwn]:
    if remedy.policy:
        yield words.say("remedy.by_policy", at=instant(remedy.asked_at), policy=remedy.policy)
    else:
        by, at = person(remedy.asked_by), instant(remedy.asked_at)
        yield words.say("remedy.asked", by=by, at=at, reason=words.say("value.text", text=clean(remedy.reason, 200)))
    if remedy.about is None:
        yield words.say("remedy.no_evidence")
    else:
        yield words.say("remedy.was_about" if remedy.has_ended else "remedy.about", number=remedy.about)


def kill_list(words: Words, shown: tuple[Said, ...]) -> Iterator[Mrkdwn]:
    """What would be killed, and what of it is not known."""
    if shown:
        yield words.say("remedy.kills")
    yield from (words.say("finding.line", line=sentence(words, one)) for one in shown[:MOST_PROCESSES])
    if len(shown) > MOST_PROCESSES:
        yield words.counted("group.more", len(shown) - MOST_PROCESSES)


def _decided(words: Words, remedy: Remedy) -> Iterator[Mrkdwn]:
    for one in remedy.approvals:
        yield words.say("remedy.approved_by", by=person(one.by), at=instant(one.at))
    if remedy.state is State.ASKED:
        yield words.say("remedy.waits", missing=remedy.needed - len(remedy.approvals), at=instant(remedy.expires_at))
    if remedy.state is State.COUNTING and remedy.counting_since:
        yield words.say("remedy.counts", at=instant(remedy.counting_since + remedy.times.countdown))
    elif remedy.state is State.COUNTING:
        yield words.say("remedy.counts_not", length=length(remedy.times.countdown.total_seconds()))
    if remedy.ended_by and remedy.ended_at:
        key = "remedy.denied_by" if remedy.state is State.DENIED else "remedy.stopped_by"
        yield words.say(key, by=person(remedy.ended_by), at=instant(remedy.ended_at))
    if remedy.sent_at:
        yield words.say("remedy.sent", at=instant(remedy.sent_at), order=remedy.order_id)


def _step(words: Words, step: ProofStep) -> Mrkdwn:
    what = words.say(f"remedy.proof.{step.stage}")
    if step.done_at:
        return words.say("remedy.step.done", what=what, at=instant(step.done_at))
    if step.detail:
        detail = sentence(words, step.detail)
        return words.say("remedy.step.detail", what=what, detail=detail, until=instant(step.deadline))
    return words.say("remedy.step.open", what=what, until=instant(step.deadline))


def _notes(words: Words, drawing: Drawing, remedy: Remedy) -> Iterator[Mrkdwn]:
    if drawing.incident.mentions:
        yield words.say("note.told", people=people(drawing.incident.mentions))
    yield words.say("note.seen_at", at=instant(remedy.ended_at or drawing.now))
    if drawing.audit_head:
        yield words.say("remedy.head", head=drawing.audit_head, number=drawing.incident.id)


# --- buttons --------------------------------------------------------------------------------------------------------


def remedy_buttons(words: Words, drawing: Drawing, remedy: Remedy) -> list[InteractiveElement]:
    subject = _subject(remedy)
    if remedy.state is State.ASKED:
        return [_approve(words, drawing, remedy), button(words, DENY, drawing.token, subject)]
    if remedy.state is State.COUNTING:
        return [button(words, STOP, drawing.token, subject, style="danger")]
    return []


def _kills(words: Words, remedy: Remedy) -> str:
    """A restart ends the runner alone, whatever else is on the node's GPUs."""
    if remedy.action is Action.RESTART_RUNNER:
        return words.plain_counted("remedy.confirm.kills", 1)
    if UNREADABLE in remedy.accepted:
        return words.plain("remedy.confirm.kills_unknown")
    return words.plain_counted("remedy.confirm.kills", len(remedy.processes))


def _approve(words: Words, drawing: Drawing, remedy: Remedy) -> ButtonElement:
    found = button(words, APPROVE, drawing.token, _subject(remedy), style="primary")
    kills = _kills(words, remedy)
    text = words.plain(f"remedy.confirm.{remedy.action}", subject=_subject(remedy), kills=kills)
    found.confirm = ConfirmObject(
        title=label(words, "remedy.confirm.title"),
        text=PlainTextObject(text=clean(text, 300), emoji=False),
        confirm=label(words, "button.remedy_approve"),
        deny=label(words, "modal.close"),
        style="danger",
    )
    return found
