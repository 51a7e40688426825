"""`step(remedy, event, now)`: the next state of one request, and what is recorded and said because of it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from bot.judge.verdict import Said
from bot.remedy import proof
from bot.remedy.model import (
    Answered,
    Approval,
    Approve,
    Blocked,
    Counted,
    Deny,
    Happened,
    Needed,
    NoAnswer,
    NobodyThere,
    Remedy,
    RemedyEvent,
    Seen,
    Send,
    State,
    Step,
    Stop,
    Tick,
)
from wire.orders import Action
from wire.remedies import OrderState

# After its order has expired no node carries it out; that much later its journal would show that it began to.
WORD_AFTER = timedelta(seconds=60)
SET_BACK = timedelta(minutes=1)  # a clock that was set back by more must not make an approval last for hours


def step(remedy: Remedy, event: RemedyEvent, now: datetime) -> Step:
    """The same request where the event changes nothing: it came too late, twice, or to the wrong state."""
    if remedy.has_ended:
        return remedy, ()
    if remedy.state in (State.ASKED, State.APPROVED) and not remedy.asked_at - SET_BACK <= now < remedy.expires_at:
        return _ended(remedy, State.EXPIRED, now)
    moved: Step = _MOVES[type(event)](remedy, event, now)
    return moved


def _ended(remedy: Remedy, state: State, now: datetime, *because: Said, by: str = "", why: str = "") -> Step:
    after = replace(remedy, state=state, because=because, ended_by=by, ended_at=now, counting_since=None)
    return after, (Happened(state, by, why or "; ".join(map(_in_short, because))),)


def _in_short(said: Said) -> str:
    """For the record, which is the same in every language."""
    values = ", ".join(f"{name}={value}" for name, value in said.texts.items())
    return f"{said.key} ({values})" if values else said.key


# --- people ---------------------------------------------------------------------------------------------------------


def _approve(remedy: Remedy, event: Approve, now: datetime) -> Step:
    if remedy.state is not State.ASKED or any(one.by == event.by for one in remedy.approvals):
        return remedy, ()
    approvals = (*remedy.approvals, Approval(event.by, now))
    if len(approvals) < remedy.needed:
        return replace(remedy, approvals=approvals), (Happened("approved_first", event.by, event.reason),)
    return replace(remedy, approvals=approvals, state=State.APPROVED), (
        Happened(State.APPROVED, event.by, event.reason),
    )


def _needed(remedy: Remedy, event: Needed, now: datetime) -> Step:
    if remedy.policy or event.count <= remedy.needed or remedy.state not in (State.ASKED, State.APPROVED):
        return remedy, ()
    after = replace(remedy, needed=event.count)
    if remedy.state is State.APPROVED:
        return _ended(after, State.VOID, now, Said("blocker.too_few"))
    return after, (Happened("needs_more", why=str(event.count)),)


def _deny(remedy: Remedy, event: Deny, now: datetime) -> Step:
    if remedy.state is not State.ASKED:
        return remedy, ()
    return _ended(remedy, State.DENIED, now, by=event.by, why=event.reason)


def _stop(remedy: Remedy, event: Stop, now: datetime) -> Step:
    """Also what is approved and not sent: the kill switch."""
    if remedy.state not in (State.COUNTING, State.ASKED, State.APPROVED):
        return remedy, ()
    return _ended(remedy, State.STOPPED, now, by=event.by)


# --- a countdown ----------------------------------------------------------------------------------------------------


def _counted(remedy: Remedy, event: Counted, now: datetime) -> Step:
    """Any outage begins it anew: a person must have had all of the time to press Stop."""
    if remedy.state is not State.COUNTING:
        return remedy, ()
    if not event.runs:
        if remedy.counting_since is None:
            return remedy, ()
        return replace(remedy, counting_since=None), (Happened("countdown_held"),)
    at = event.at or now
    if remedy.counting_since is None:
        return replace(remedy, counting_since=at), (Happened("countdown_runs"),)
    if at - remedy.counting_since < remedy.times.countdown:
        return remedy, ()
    after = replace(remedy, state=State.APPROVED, expires_at=now + remedy.times.order)
    return after, (Happened("countdown_over", why=remedy.policy),)


# --- the order ------------------------------------------------------------------------------------------------------


def _blocked(remedy: Remedy, event: Blocked, now: datetime) -> Step:
    if remedy.state not in (State.APPROVED, State.COUNTING):
        return remedy, ()
    return _ended(remedy, State.VOID, now, *event.by)


def _send(remedy: Remedy, event: Send, now: datetime) -> Step:
    if remedy.state is not State.APPROVED:
        return remedy, ()
    after = replace(
        remedy,
        state=State.SENDING,
        order_id=event.order_id,
        fence=event.fence,
        sent_at=now,
        order_expires_at=now + remedy.times.order,
        proof=proof.begun(remedy, now),
    )
    return after, (Happened(State.SENDING, values={"order": event.order_id}),)


def _answered(remedy: Remedy, event: Answered, now: datetime) -> Step:
    if remedy.state not in (State.SENDING, State.UNANSWERED):
        return remedy, ()
    if event.is_accepted:
        return replace(remedy, state=State.ACCEPTED), (Happened(State.ACCEPTED),)
    return _refused(remedy, event.why, now)


def _refused(remedy: Remedy, why: str, now: datetime) -> Step:
    return _ended(remedy, State.REFUSED, now, Said("remedy.because.node", {"why": why or "-"}), why=why)


def _nobody_there(remedy: Remedy, event: NobodyThere, now: datetime) -> Step:
    if remedy.state is not State.SENDING:
        return remedy, ()
    return _ended(remedy, State.VOID, now, Said("remedy.because.nobody_there"))


def _no_answer(remedy: Remedy, event: NoAnswer, now: datetime) -> Step:
    if remedy.state is not State.SENDING:
        return remedy, ()
    return replace(remedy, state=State.UNANSWERED), (Happened(State.UNANSWERED),)


# --- what the node shows --------------------------------------------------------------------------------------------


def _seen(remedy: Remedy, event: Seen, now: datetime) -> Step:
    if remedy.state not in (State.UNANSWERED, State.ACCEPTED):
        return remedy, ()
    if event.word is OrderState.REFUSED:
        return _refused(remedy, event.why, now)
    if event.word is OrderState.FAILED:
        return _ended(remedy, State.FAILED, now, Said("remedy.because.node", {"why": event.why or "-"}), why=event.why)
    if event.word is OrderState.LOST and not remedy.is_lost:
        remedy = replace(remedy, is_lost=True)
    if remedy.state is State.UNANSWERED:
        return _seen_unanswered(remedy, event, now)
    return _proved(remedy, event, now)


def _seen_unanswered(remedy: Remedy, event: Seen, now: datetime) -> Step:
    """Its journal or a new boot says that it has the order; long after the order's end, that it never had it."""
    is_new_boot = remedy.action is Action.REBOOT_NODE and event.boot_id != remedy.boot_id
    if event.word is not None or is_new_boot:
        return replace(remedy, state=State.ACCEPTED), (Happened("accepted_after_all"),)
    is_over = remedy.order_expires_at is not None and event.heard_at > remedy.order_expires_at + WORD_AFTER
    if is_over and event.boot_id == remedy.boot_id:
        return _ended(remedy, State.VOID, now, Said("remedy.because.never_arrived"))
    return _tick(remedy, Tick(), now)


def _proved(remedy: Remedy, event: Seen, now: datetime) -> Step:
    steps = proof.looked(remedy, event, now)
    done = [new for old, new in zip(remedy.proof, steps, strict=True) if new.done_at and not old.done_at]
    said = tuple(Happened(f"proof.{one.stage}") for one in done)
    after = remedy if steps == remedy.proof else replace(remedy, proof=steps)
    if all(one.done_at for one in steps):
        ended, over = _ended(after, State.DONE, now)
        return ended, (*said, *over)
    if said:
        return after, said
    return _tick(after, Tick(), now)


def _tick(remedy: Remedy, event: Tick, now: datetime) -> Step:
    """Deadlines. What was sent and never heard of again is told as unknown, not as failed."""
    late = next((one for one in remedy.proof if one.done_at is None and now >= one.deadline), None)
    if late is None or remedy.state not in (State.UNANSWERED, State.ACCEPTED):
        return remedy, ()
    if remedy.state is State.UNANSWERED or remedy.is_lost:
        return _ended(remedy, State.OUTCOME_UNKNOWN, now, Said("remedy.because.unknown"))
    missing = late.detail or Said(f"remedy.missing.{late.stage}")
    return _ended(remedy, State.FAILED, now, missing)


_MOVES: dict[type, Callable[[Remedy, Any, datetime], Step]] = {
    Approve: _approve,
    Needed: _needed,
    Deny: _deny,
    Stop: _stop,
    Counted: _counted,
    Blocked: _blocked,
    Send: _send,
    Answered: _answered,
    NobodyThere: _nobody_there,
    NoAnswer: _no_answer,
    Seen: _seen,
    Tick: _tick,
}
