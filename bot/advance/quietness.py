"""What keeps a node's incidents quiet: a person's word, a maintenance window, or the config."""

from collections.abc import Iterable
from datetime import datetime

from bot.advance.settings import AdvanceSettings
from bot.incident import WORST, Incident, Kind, Quiet, QuietWhy, severity
from bot.store.incidents import NodeSnooze

EVERYTHING = WORST + 1


class Quietness:
    """`snoozes` are set by the writer thread after its commit."""

    def __init__(self, settings: AdvanceSettings) -> None:
        self._settings = settings
        self.snoozes: dict[str, NodeSnooze] = {}

    def take_up(self, snoozes: Iterable[NodeSnooze]) -> None:
        self.snoozes = {snooze.node: snooze for snooze in snoozes}

    def forget(self, node: str) -> None:
        self.snoozes.pop(node, None)

    def of(self, incident: Incident, now: datetime) -> Quiet | None:
        """What keeps it quiet now, besides a snooze of its own. What waits for an approval is never kept quiet."""
        if incident.kind is Kind.REMEDY:
            return None
        return self.of_what(incident.node, incident.what, now)

    def of_what(self, node: str, what: str, now: datetime) -> Quiet | None:
        if what in self._settings.not_posted:
            return Quiet(QuietWhy.NOT_POSTED, EVERYTHING)
        if not node:
            return None
        return self._snoozed(node, what, now) or self._maintained(node, now)

    def snooze_of(self, node: str, now: datetime) -> NodeSnooze | None:
        snooze = self.snoozes.get(node)
        return snooze if snooze and snooze.until > now else None

    def _snoozed(self, node: str, what: str, now: datetime) -> Quiet | None:
        snooze = self.snooze_of(node, now)
        if snooze is None or severity(what) > snooze.up_to:
            return None
        return Quiet(QuietWhy.NODE_SNOOZED, snooze.up_to, snooze.until, snooze.by, snooze.reason)

    def _maintained(self, node: str, now: datetime) -> Quiet | None:
        going_on = self._settings.maintenance_of(node, now)
        if going_on is None:
            return None
        return Quiet(QuietWhy.MAINTENANCE, EVERYTHING, going_on.until, reason=going_on.reason)
