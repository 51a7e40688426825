"""What was said against what would have been said."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from bot.incident import Incident
from bot.replay.past import Change

MOMENT = timedelta(minutes=1)  # two ticks: a bot that hears heartbeats is that much later than the record


class Difference(msgspec.Struct, frozen=True):
    """`then` None: it was not said; `now` None: it would not be."""

    then: Incident | None
    now: Incident | None


def last_states(changes: Iterable[Change]) -> list[Incident]:
    """Each replayed incident as it stood at the end."""
    return list({change.number: change.incident for change in changes}.values())


def compare(
    then: Sequence[Incident], now: Sequence[Incident], since: datetime, until: datetime
) -> tuple[int, list[Difference]]:
    """How many are the same, and every difference in the order of time."""
    same, differences = 0, []
    left = list(now)
    for incident in then:
        match = next((one for one in left if _overlap(incident, one, until)), None)
        if match is not None:
            left.remove(match)
        if match is not None and _is_same(incident, match, since):
            same += 1
        else:
            differences.append(Difference(incident, match))
    differences += [Difference(None, one) for one in left]
    return same, sorted(differences, key=_begins)


def _overlap(one: Incident, other: Incident, until: datetime) -> bool:
    if (one.kind, one.subject) != (other.kind, other.subject):
        return False
    return one.opened_at <= (other.closed_at or until) and other.opened_at <= (one.closed_at or until)


def _is_same(then: Incident, now: Incident, since: datetime) -> bool:
    began_before = then.opened_at <= since + MOMENT
    return then.what == now.what and (began_before or abs(now.opened_at - then.opened_at) <= MOMENT)


def _begins(difference: Difference) -> datetime:
    return min(one.opened_at for one in (difference.then, difference.now) if one is not None)
