"""What keeps a node's incidents quiet: a person's word, a maintenance window, or the config."""

from collections.abc import Callable, Iterable
from datetime import datetime

from bot.advance.settings import AdvanceSettings
from bot.incident import WORST, Incident, Kind, Quiet, QuietWhy, severity
from bot.remedy.model import SENT
from bot.store.incidents import NodeSnooze
from wire.orders import Action

EVERYTHING = WORST + 1
# What a reboot brings with it for as long as it may take.
_OF_A_REBOOT = frozenset({"node_lost", "reading_broken", "gpu_gone", "down", "blind"})
RequestOf = Callable[[str], Incident | None]


class Quietness:
    """`snoozes` are set by the writer thread after its commit; `request_of` a node is its unfinished remedy."""

    def __init__(self, settings: AdvanceSettings, request_of: RequestOf = lambda node: None) -> None:
        self._settings = settings
        self._request_of = request_of
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
        return self._snoozed(node, what, now) or self._maintained(node, now) or self._rebooted(node, what, now)

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

    def _rebooted(self, node: str, what: str, now: datetime) -> Quiet | None:
        """Only as long as its proof may take; what still holds then is said."""
        incident = self._request_of(node)
        request = incident.remedy if incident else None
        if request is None or request.action is not Action.REBOOT_NODE or what not in _OF_A_REBOOT:
            return None
        until = max((one.deadline for one in request.proof), default=now)
        return Quiet(QuietWhy.REMEDY, EVERYTHING, until) if request.state in SENT and until > now else None
