"""One event on one incident, in the caller's transaction: step, save, the group's card, and what must leave."""

import functools
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace
from sqlalchemy import Connection

from bot import clock
from bot.advance.settings import BLIND_GATHER, AdvanceSettings
from bot.incident import (
    BLIND,
    CANDIDATES,
    GROUPS,
    Effect,
    Event,
    Incident,
    Kind,
    Members,
    Mention,
    Recorded,
    ShowCard,
    ThreadLine,
    Who,
    step,
)
from bot.store import audit, incidents, outbox, remedies
from bot.store.outbox import OutboxRow
from bot.store.writer import Transaction

_AT_ONCE = timedelta(0)
Key = tuple[Kind, str]


class Steps:
    """`open` holds every open incident as committed: for reading only, a step loads what the database has."""

    def __init__(self, settings: AdvanceSettings) -> None:
        self._settings = settings
        self.open: dict[Key, Incident] = {}
        self.on_change: list[Callable[[Incident], None]] = []
        self.on_outbox: list[Callable[[], None]] = []

    def apply(
        self, transaction: Transaction, before: Incident | None, event: Event, about: Sequence[str] = ()
    ) -> Incident | None:
        """`about` are the nodes that the event is about, where the incident does not say it itself."""
        after, effects = step(before, event, clock.now())
        if after is None or after is before:
            return after
        if _becomes_quiet(before, after) and outbox.withdraw(transaction.connection, after.id):
            after, effects = replace(after, said_at=None), ()  # nobody saw it: it is said when it is quiet no more
        card = outbox.card_of(transaction.connection, after.id) if after.id else None
        after, told = self._told(transaction.connection, after, effects, about)
        saved = incidents.save(transaction.connection, before, after)
        remedies.save(transaction.connection, saved)
        self._record(transaction.connection, saved, effects)
        transaction.on_commit(lambda: self.remember(saved))
        self._send(transaction, saved, card, effects, told)
        if (group_id := saved.shown_on) is not None:
            # Once for all of a transaction: thousands of nodes may come to one card within seconds.
            tell = functools.partial(self._tell_group, transaction, group_id)
            transaction.gather(("group", group_id), saved.node, tell)
        return saved

    def _record(self, connection: Connection, incident: Incident, effects: Iterable[Effect]) -> None:
        """In the same transaction: neither is there without the other."""
        for one in effects:
            if isinstance(one, Recorded):
                entry = audit.Entry(clock.now(), one.who, one.what, one.why, incident.id, incident.node)
                audit.append(connection, entry)

    def remember(self, incident: Incident) -> None:
        key = (incident.kind, incident.subject)
        if incident.closed_at:
            self.open.pop(key, None)
        else:
            self.open[key] = incident
        for call in self.on_change:
            call(incident)

    def open_by_number(self, number: int) -> Incident | None:
        """As committed."""
        return next((one for one in list(self.open.values()) if one.id == number), None)

    def draw(self, transaction: Transaction, incident: Incident) -> None:
        """The card is drawn again, as it stands: somebody's screen shows an old one."""
        if incident.said_at is not None and incident.shown_on is None:
            card = outbox.card_of(transaction.connection, incident.id)
            self._send(transaction, incident, card, [ShowCard(at_once=True)], ())

    def take_back(self, transaction: Transaction, incident: Incident) -> bool:
        """It became quiet while its card was on its way, and Slack did not take the card: as if it had never left."""
        if not outbox.withdraw(transaction.connection, incident.id):
            return False
        after = replace(incident, said_at=None, revision=incident.revision + 1)
        saved = incidents.save(transaction.connection, incident, after)
        transaction.on_commit(lambda: self.remember(saved))
        return True

    def _tell_group(self, transaction: Transaction, group_id: int, nodes: Sequence[str]) -> None:
        group = incidents.load(transaction.connection, group_id)
        if group is None:
            return
        total, still_open = incidents.count_members(transaction.connection, group_id)
        self.apply(transaction, group, Members(group.kind, total, still_open), nodes)

    # --- who is mentioned -------------------------------------------------------------------------------------------

    def _told(
        self, connection: Connection, incident: Incident, effects: Iterable[Effect], about: Sequence[str]
    ) -> tuple[Incident, Sequence[str]]:
        """The incident with everybody whom its card names, and those who must be mentioned now."""
        mentions = [effect for effect in effects if isinstance(effect, Mention)]
        named = [user for effect in mentions for user in self._people(connection, incident, effect.who, about)]
        told = list(dict.fromkeys(named))
        if incident.kind in GROUPS and mentions and mentions[0].key == "thread.more_members":
            told = [user for user in told if user not in incident.mentions]
        everybody = tuple(dict.fromkeys([*incident.mentions, *told]))
        return (incident if everybody == incident.mentions else replace(incident, mentions=everybody)), told

    def _people(self, connection: Connection, incident: Incident, who: Who, about: Sequence[str]) -> Iterable[str]:
        nodes: Sequence[str] = about or [incident.node]
        if incident.kind in GROUPS and not about:
            members = incidents.members_of(connection, incident.id)
            nodes = list(dict.fromkeys(member.node for member in members if not member.closed_at))
        return (user for node in nodes for user in self._settings.people(node, who))

    # --- what leaves ------------------------------------------------------------------------------------------------

    def _send(
        self,
        transaction: Transaction,
        incident: Incident,
        card: OutboxRow | None,
        effects: Iterable[Effect],
        told: Sequence[str],
    ) -> None:
        now, shadow = clock.now(), self._settings.shadow
        for effect in effects:
            key = secrets.token_hex(16)
            if isinstance(effect, ShowCard):
                not_before = self._card_time(incident, card, effect, now)
                outbox.want_card(
                    transaction.connection, incident.id, incident.revision, key, not_before, shadow=shadow, now=now
                )
            elif card and card.ts and (line := _line(effect, told)):  # before the card, its thread has nothing to add
                outbox.add_line(transaction.connection, incident.id, line.key, line.values, key, shadow=shadow, now=now)
        for call in self.on_outbox:
            transaction.on_commit(call)

    def _card_time(self, incident: Incident, card: OutboxRow | None, effect: ShowCard, now: datetime) -> datetime:
        if card is None:
            return now + self._gather(incident)
        if card.sent_at is None or card.last_error:
            return card.not_before
        every = self._settings.edit_every  # also where the clock was set back since: then it was sent in the future
        return now if effect.at_once else min(max(now, card.sent_at + every), now + every)

    def _gather(self, incident: Incident) -> timedelta:
        if incident.kind in CANDIDATES:
            return self._settings.gather
        return min(self._settings.gather, BLIND_GATHER) if incident.kind in BLIND else _AT_ONCE


def _becomes_quiet(before: Incident | None, after: Incident) -> bool:
    return before is not None and before.quiet is None and after.quiet is not None


def _line(effect: Effect, told: Sequence[str]) -> ThreadLine | None:
    """A mention's line names the people; where nobody is configured there is nothing to say."""
    if isinstance(effect, Mention):
        return ThreadLine(effect.key, {"mention": " ".join(told)}) if told else None
    return effect if isinstance(effect, ThreadLine) else None
