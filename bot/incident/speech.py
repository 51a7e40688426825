"""Who may hear of a change: nobody of what is kept quiet, and of a group's member only by the group's card."""

from datetime import datetime

from msgspec.structs import replace

from bot.incident.model import Effect, Incident, Mention, Opening, Quiet, QuietWhy, ShowCard, Step, ThreadLine, Who


def opened(new: Incident, opening: Opening, now: datetime, *effects: Effect) -> Step:
    """A new incident, said now unless it opens quietly or on another card."""
    is_said = opening.quiet is None and opening.shown_on is None
    new = replace(new, quiet=opening.quiet, shown_on=opening.shown_on, said_at=now if is_said else None)
    return new, _heard(new, effects)


def changed(incident: Incident, *effects: Effect) -> Step:
    """The next revision, and what of the effects may be heard."""
    incident = replace(incident, revision=incident.revision + 1)
    return incident, _heard(incident, effects)


def decided(incident: Incident, *effects: Effect) -> Step:
    """The same after a person's decision: buttons of before are stale, and even a quiet card shows it at once."""
    incident = replace(incident, revision=incident.revision + 1, decision_revision=incident.decision_revision + 1)
    return incident, (ShowCard(at_once=True), *effects) if _has_card(incident) else ()


def said_again(incident: Incident, now: datetime) -> Step:
    """Nothing keeps it quiet any more: its card is posted, or turns back, and whoever must know is told."""
    was_said = incident.said_at is not None
    incident = replace(incident, quiet=None, said_at=now, escalated=0)
    if is_to_wake(incident):
        return changed(incident, ShowCard(), Mention(Who.ON_CALL, "thread.still_there"))
    return changed(incident, ShowCard(), *([ThreadLine("thread.quiet_over", {})] if was_said else []))


def is_to_wake(incident: Incident) -> bool:
    """Whether somebody must still be found who looks at it."""
    return incident.wakes_people and incident.acknowledged_by is None and incident.disputed_by is None


def own_snooze(incident: Incident, now: datetime) -> Quiet | None:
    """The incident's own snooze that still runs."""
    quiet = incident.quiet
    is_running = quiet and quiet.why is QuietWhy.SNOOZED and (quiet.until is None or quiet.until > now)
    return quiet if is_running else None


def _has_card(incident: Incident) -> bool:
    return incident.said_at is not None and incident.shown_on is None


def _heard(incident: Incident, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    if not _has_card(incident):
        return ()
    if incident.quiet is None or incident.closed_at:  # that it is over is always said
        return effects
    return tuple(effect for effect in effects if isinstance(effect, ShowCard))
