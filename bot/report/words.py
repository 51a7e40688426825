"""How often we were wrong: by people's word, and by the record."""

from collections.abc import Collection, Iterable
from datetime import timedelta

import msgspec

from bot.incident import CardState, Incident
from bot.judge.verdict import Because
from bot.remedy.model import State
from bot.report.model import Precision, Remedies, Stall

TAKEN_BACK_WITHIN = timedelta(minutes=10)
_IN_USE = (Because.WINDOW_HELD, Because.SAMPLE_HELD)
# Of a runner's verdicts those that say that it does no work.
STALLS = ("stalled", "uncertain", "load_stuck", "erroring", "down")


class Word(msgspec.Struct, frozen=True):
    """One incident, and whether people could read of it; `taken_back` is what the record says of a free GPU."""

    incident: Incident
    was_said: bool
    taken_back: bool = False


class Return(msgspec.Struct, frozen=True):
    """A GPU that was in use again soon after it was called free; it is our mistake if it is the same `owner`."""

    incident_id: int
    node: str
    uuid: str
    owner: str
    left_at_seconds: float


def soon_returned(incident: Incident) -> Iterable[Return]:
    """The GPUs of a card that were in use within 10 minutes after they were confirmed, where the owner is known."""
    for gpu in incident.gpus:
        owner = gpu.last_held.process.user if gpu.last_held and gpu.last_held.process else None
        if gpu.state is not CardState.LEFT or gpu.because not in _IN_USE or owner is None or not gpu.evidence:
            continue
        if gpu.changed_at - gpu.evidence[-1].closed_at <= TAKEN_BACK_WITHIN:
            yield Return(incident.id, incident.node, gpu.uuid, owner, gpu.changed_at.timestamp())


def precision(words: Collection[Word]) -> Precision:
    """A word that people and the record call wrong counts once."""
    said = [word for word in words if word.was_said]
    quiet = [word for word in words if not word.was_said]
    return Precision(
        said=len(said),
        wrong_by_people=sum(_is_disputed(word) for word in said),
        wrong_by_record=sum(word.taken_back and not _is_disputed(word) for word in said),
        kept_quiet=len(quiet),
        kept_quiet_wrong=sum(word.taken_back or _is_disputed(word) for word in quiet),
    )


def _is_disputed(word: Word) -> bool:
    return word.incident.disputed_by is not None


_DONE, _FAILED, _UNKNOWN = (State.DONE,), (State.FAILED,), (State.OUTCOME_UNKNOWN,)
_NOT_DONE = (State.REFUSED, State.VOID, State.EXPIRED, State.DENIED, State.STOPPED)


def remedies(incidents: Iterable[Incident]) -> Remedies:
    states = [one.remedy.state for one in incidents if one.remedy is not None]
    counts = {
        name: sum(state in of for state in states)
        for name, of in (("done", _DONE), ("failed", _FAILED), ("not_done", _NOT_DONE), ("unknown", _UNKNOWN))
    }
    return Remedies(asked=len(states), open=len(states) - sum(counts.values()), **counts)


def stall(incident: Incident) -> Stall:
    finding = incident.finding
    heard_at = incident.said_at or incident.opened_at
    since = min(finding.since, heard_at) if finding else incident.opened_at
    acknowledged, closed = incident.acknowledged_at, incident.closed_at
    return Stall(
        subject=incident.subject,
        what=incident.what,
        opened_at=incident.opened_at,
        detect_seconds=(heard_at - since).total_seconds(),
        acknowledge_seconds=(acknowledged - heard_at).total_seconds() if acknowledged else None,
        recover_seconds=(closed - heard_at).total_seconds() if closed else None,
        lost=_lost(incident),
        is_wrong=incident.disputed_by is not None,
    )


def _lost(incident: Incident) -> float | None:
    """Results that were not done, as the card says; None where that is not known."""
    lines = (*incident.ending, *(incident.finding.lines if incident.finding else ()))
    told = [line.texts.get("lost", "") for line in lines if line.key in ("runner.lost_in_all", "runner.lost")]
    try:
        return float(told[0]) if told else None
    except ValueError:
        return None
