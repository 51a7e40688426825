"""How an incident opens: quietly, on a card of its own, or on the card of a group, so that nobody gets a flood."""

from collections.abc import Callable, Iterator
from datetime import datetime

from bot import clock
from bot.advance.quietness import Quietness
from bot.advance.settings import (
    FLEET_CARD_AFTER,
    FLEET_CARD_WITHIN,
    MANY_NODES,
    MANY_SHARE,
    MANY_WITHIN,
    STORM_AFTER,
    STORM_WITHIN,
)
from bot.advance.steps import Steps
from bot.incident import BLIND, CANDIDATES, FLEET_SUBJECT, GROUPS, Folded, Incident, Kind, Members, Opening
from bot.store import incidents, outbox
from bot.store.writer import Transaction

# What no storm takes up: free GPUs have the fleet's card, and a person must be able to press on a request for a remedy.
_OF_THEIR_OWN = CANDIDATES | GROUPS | {Kind.REMEDY}


class Openings:
    """Asked only when something new opens; that is rare, so it may ask the database."""

    def __init__(self, steps: Steps, quietness: Quietness, fleet_size: Callable[[], int]) -> None:
        self._steps = steps
        self._quietness = quietness
        self._fleet_size = fleet_size

    def of(self, transaction: Transaction, kind: Kind, node: str, what: str, *, is_new: bool = True) -> Opening:
        """`is_new` False: it is open already, and only what it says is new."""
        now = clock.now()
        quiet = self._quietness.of_what(node, what, now)
        if quiet is not None:
            return Opening(quiet=quiet)
        if not is_new:
            return Opening()
        group = self._group_for(transaction, kind, node, now)
        return Opening(shown_on=self._on(transaction, group, node, now)) if group else Opening()

    def _group_for(self, transaction: Transaction, kind: Kind, node: str, now: datetime) -> Kind | None:
        if kind in CANDIDATES:
            said = incidents.count_said(transaction.connection, now - FLEET_CARD_WITHIN, [Kind.CANDIDATE])
            return Kind.FLEET if said >= FLEET_CARD_AFTER else None
        if kind in BLIND and self._is_many(node, now):
            return Kind.MANY_BLIND
        others = [one for one in Kind if one not in _OF_THEIR_OWN]
        said = incidents.count_said(transaction.connection, now - STORM_WITHIN, others, self._id_of(Kind.STORM))
        return Kind.STORM if said >= STORM_AFTER else None

    def _is_many(self, node: str, now: datetime) -> bool:
        blind = {incident.node for incident in self._newly_blind(now)} | {node}
        return len(blind) >= MANY_NODES and len(blind) >= MANY_SHARE * self._fleet_size()

    def _newly_blind(self, now: datetime) -> Iterator[Incident]:
        """What came lately, and what stands on the card of many already."""
        many = self._id_of(Kind.MANY_BLIND)
        for incident in self._steps.open.values():
            is_new = incident.said_at is not None and incident.said_at >= now - MANY_WITHIN
            if incident.kind in BLIND and (is_new or (many is not None and incident.shown_on == many)):
                yield incident

    def _id_of(self, kind: Kind) -> int | None:
        group = self._steps.open.get((kind, FLEET_SUBJECT))
        return group.id if group else None

    # --- the group's card -------------------------------------------------------------------------------------------

    def _on(self, transaction: Transaction, kind: Kind, node: str, now: datetime) -> int | None:
        """The group's id; its incident is opened where there is none."""
        group = incidents.open_of(transaction.connection, kind, FLEET_SUBJECT)
        if group is None:
            group = self._steps.apply(transaction, None, Members(kind, total=1, open=1), [node])
            if group is not None:
                self._gather_in(transaction, group, now)
        return group.id if group else None

    def _gather_in(self, transaction: Transaction, group: Incident, now: datetime) -> None:
        """Cards that the group makes superfluous and that nobody has seen yet."""
        for incident in list(self._steps.open.values()):
            is_like = incident.kind in BLIND if group.kind is Kind.MANY_BLIND else incident.kind not in _OF_THEIR_OWN
            since = now - (MANY_WITHIN if group.kind is Kind.MANY_BLIND else STORM_WITHIN)
            is_new = incident.said_at is not None and incident.said_at >= since
            if group.kind is Kind.FLEET or not is_like or not is_new or incident.kind in GROUPS:
                continue
            present = incidents.load(transaction.connection, incident.id)
            is_loose = present and present.shown_on is None and present.quiet is None and not present.closed_at
            if present and is_loose and outbox.withdraw(transaction.connection, present.id):
                self._steps.apply(transaction, present, Folded(group.id))
