"""The only writer of incidents: load, step, save and outbox, in one transaction."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.advance.candidates import Candidates
from bot.advance.clicks import Click, Clicked, Outcome
from bot.advance.on_offer import Offers
from bot.advance.openings import Openings
from bot.advance.quietness import EVERYTHING, Quietness
from bot.advance.remedies import Remedies
from bot.advance.settings import AdvanceSettings
from bot.advance.steps import Key, Steps
from bot.fleet import Fleet
from bot.groups import Group
from bot.incident import (
    BLIND,
    GROUPS,
    HIDES_EVERYTHING,
    Acknowledged,
    Finding,
    Folded,
    Incident,
    Kind,
    NotAStall,
    PeopleEvent,
    Said,
    SaidInUse,
    Snoozed,
    TimePassed,
    Unsnoozed,
    has_node,
    step,
)
from bot.judge.track import NodeTrack
from bot.judge.verdict import Presence
from bot.maintenance import Maintenance
from bot.store import claims, incidents, outbox, troubles
from bot.store.incidents import NodeSnooze
from bot.store.outbox import OutboxRow
from bot.store.writer import Store, Transaction

log = logging.getLogger(__name__)

LONGEST_REASON = 200
NODES_AT_ONCE = 20  # 0.3 ms: to look at ten thousand takes a while, and clicks go in between
_EVER = datetime.min.replace(tzinfo=UTC)
_OF_THE_BOT = frozenset(kind for kind in Kind if not has_node(kind))


class Advance:
    """Steps incidents, by what nodes report, by what people press, and by the clock."""

    def __init__(self, store: Store, fleet: Fleet, settings: AdvanceSettings) -> None:
        self._store = store
        self._fleet = fleet
        self._settings = settings
        self._steps = Steps(settings)
        self._steps.on_change.append(self._note_blind)
        self._steps.on_change.append(fleet.runners.note)
        self._quietness = Quietness(settings, lambda node: self._steps.open.get((Kind.REMEDY, node)))
        self._openings = Openings(self._steps, self._quietness, lambda: len(fleet.nodes()))
        self._candidates = Candidates(store, fleet, self._steps, self._openings)
        self.remedies = Remedies(store, fleet, self._steps, settings)
        self._offers = Offers(fleet, self.remedies)
        self._unjudged: set[str] = set()
        self._taken_up: frozenset[int] = frozenset()
        self._began_seconds = clock.monotonic_seconds()

    async def start(self) -> None:
        """Takes up the incidents, snoozes and claims that were there when the last bot stopped."""
        taken_up = await self._store.read(incidents.all_open)
        for incident in taken_up:
            self._steps.remember(incident)
        self._taken_up = frozenset(incident.id for incident in taken_up)
        self._quietness.take_up(await self._store.read(incidents.node_snoozes))
        for claim in await self._store.read(claims.not_ended):
            self._fleet.note_claim(claim)
        if not self._settings.shadow:
            await self._store.write(lambda transaction: outbox.end_shadow(transaction.connection, clock.now()))

    def on_outbox(self, call: Callable[[], None]) -> None:
        """`call` runs in the writer thread after every commit that left something to send."""
        self._steps.on_outbox.append(call)

    def open_incidents(self) -> Sequence[Incident]:
        """As committed, the most urgent first."""
        return sorted(self._steps.open.values(), key=lambda one: (one.urgency, -one.severity, one.id))

    def group_of(self, node: str) -> Group | None:
        """Who looks after it."""
        return self._settings.group_of(node)

    def open_of(self, kind: Kind, subject: str) -> Incident | None:
        """As committed."""
        return self._steps.open.get((kind, subject))

    def snoozed_node(self, node: str) -> NodeSnooze | None:
        return self._quietness.snooze_of(node, clock.now())

    def maintenance_of(self, node: str) -> Maintenance | None:
        return self._settings.maintenance_of(node, clock.now())

    # --- findings ---------------------------------------------------------------------------------------------------

    async def found(self, finding: Finding) -> None:
        """Takes what a judge says; writes only when it moves something."""
        if self._moves(finding):
            await self._store.write(lambda transaction: self.found_in(transaction, finding))

    def found_in(self, transaction: Transaction, finding: Finding) -> Incident | None:
        """The same inside a transaction: the subject's incident after it, None where there is none."""
        finding = self._as_seen(finding)
        before = incidents.open_of(transaction.connection, finding.kind, finding.subject)
        if before is None and finding.presence is not Presence.PRESENT:
            return None
        node = "" if finding.kind in _OF_THE_BOT else finding.subject.partition("/")[0]
        if before is None or (before.what != finding.what and before.shown_on is None):
            opening = self._openings.of(transaction, finding.kind, node, finding.what, is_new=before is None)
            finding = replace(finding, opening=opening)
        return self._steps.apply(transaction, before, finding)

    def _moves(self, finding: Finding) -> bool:
        finding = self._as_seen(finding)
        before = self._steps.open.get((finding.kind, finding.subject))
        return step(before, finding, clock.now())[0] is not before

    def _as_seen(self, finding: Finding) -> Finding:
        """Nothing is concluded about what cannot be seen."""
        hides = self._fleet.hidden.get(finding.subject.partition("/")[0], frozenset())
        if finding.kind in BLIND or not hides & HIDES_EVERYTHING:
            return finding
        return replace(finding, presence=Presence.UNKNOWN)

    def _note_blind(self, incident: Incident) -> None:
        if incident.kind in BLIND:
            self._fleet.note_blind(incident.node, incident.kind, is_blind=incident.closed_at is None)

    # --- by the clock -----------------------------------------------------------------------------------------------

    async def look_around(self) -> None:
        """Judges what can be seen of every node, lets snoozes run out, and reminds people of what nobody took."""
        self._fleet.note_removed()
        await self.remedies.look_back()
        await self._let_go_of_removed()
        for number, node in enumerate(self._fleet.nodes()):
            await self._look_at(node)
            if number % NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        await self.found(self._fleet.stream_finding())
        oldest = await self._store.read(lambda connection: incidents.oldest_unsaid(connection, clock.now()))
        await self.found(self._fleet.slack_finding(oldest))
        for key in list(self._steps.open):
            if self._is_time(key):
                await self._store.write(partial(self._time_passed, key))

    async def _look_at(self, node: str) -> None:
        """A node of which something strange is heard must not keep the bot from looking at the others."""
        try:
            for finding in self._fleet.findings(node, self._steps.open):
                await self.found(self._offers.put_on(finding))
            self._unjudged.discard(node)
        except SQLAlchemyError:
            raise
        except Exception:
            if node not in self._unjudged:
                log.exception("a node cannot be judged, the others are node=%s", node)
            self._unjudged.add(node)

    async def _let_go_of_removed(self) -> None:
        """What is open about a node that does not belong to the fleet any more is over."""
        for incident in list(self._steps.open.values()):
            if incident.finding and incident.node in self._fleet.removed:
                gone = replace(incident.finding, presence=Presence.ABSENT, lines=(Said("ending.node_removed"),))
                await self._store.write(partial(self._let_go, gone))

    def _let_go(self, gone: Finding, transaction: Transaction) -> None:
        before = incidents.open_of(transaction.connection, gone.kind, gone.subject)
        self._steps.apply(transaction, before, gone)

    def _is_time(self, key: Key) -> bool:
        """Whether time may have moved it: as if its card were in Slack since it was said."""
        incident = self._steps.open.get(key)
        if incident is None or self._may_be_over(incident):
            return False
        event = self._time_event(incident, _EVER if incident.said_at else None)
        return step(incident, event, clock.now())[0] is not incident

    def _may_be_over(self, incident: Incident) -> bool:
        """This bot has just begun and not heard of the node: what the last one saw is not said once more."""
        if incident.id not in self._taken_up or not incident.node or self._fleet.seen(incident.node) is not None:
            return False
        return clock.monotonic_seconds() - self._began_seconds <= self._fleet.presence_rule.settles_seconds

    def _time_passed(self, key: Key, transaction: Transaction) -> None:
        incident = incidents.open_of(transaction.connection, *key)
        if incident is not None:
            card = outbox.card_of(transaction.connection, incident.id)
            event = self._time_event(incident, _heard_at(transaction.connection, card))
            group_id = self._group_of(transaction, incident, event)
            self._steps.apply(transaction, incident, event if group_id is None else Folded(group_id))

    def _group_of(self, transaction: Transaction, incident: Incident, event: TimePassed) -> int | None:
        """On whose card it is said, where it was kept quiet until now: many may be at the end of a maintenance."""
        after = step(incident, event, clock.now())[0]
        if after is None or incident.said_at is not None or after.said_at is None:
            return None
        return self._openings.of(transaction, incident.kind, incident.node, incident.what).shown_on

    def _time_event(self, incident: Incident, posted_at: datetime | None) -> TimePassed:
        quiet = self._quietness.of(incident, clock.now())
        return TimePassed(posted_at, quiet, self._settings.again_after, self._settings.second_after)

    # --- free GPUs --------------------------------------------------------------------------------------------------

    async def refresh(self, node: str) -> None:
        """Judges the node's GPUs afresh, and writes only when something about them is different."""
        await self._candidates.refresh(node)

    async def refresh_open(self) -> None:
        """Judges again every node with an open card: time alone makes a heartbeat old."""
        await self._candidates.refresh_open()

    def judge_in(self, transaction: Transaction, node: str, track: NodeTrack | None = None) -> None:
        """The same inside a transaction; `track` is the node's track where this transaction has a newer one."""
        self._candidates.judge_in(transaction, node, track)

    # --- what a card may say this moment ----------------------------------------------------------------------------

    async def refresh_incident(self, incident: Incident) -> None:
        """Judges afresh what the incident's card speaks of."""
        if incident.kind is Kind.FLEET:
            for member in await self.members(incident):
                if not member.closed_at:
                    await self.refresh(member.node)
        elif incident.kind is Kind.CANDIDATE:
            await self.refresh(incident.node)

    async def members(self, incident: Incident) -> Sequence[Incident]:
        """The incidents on a group's card; none for other incidents."""
        if incident.kind not in GROUPS:
            return []
        return await self._store.read(lambda connection: incidents.members_of(connection, incident.id))

    def free_now(self, shown: Sequence[Incident]) -> frozenset[str]:
        """The UUIDs that may be called free this moment, of the nodes of these incidents."""
        judged = [self._fleet.judged(incident.node) for incident in shown if incident.kind is Kind.CANDIDATE]
        return frozenset(
            uuid for one in judged for uuid, facts in one.gpus.items() if facts.standing.presence is Presence.PRESENT
        )

    def take_back_in(self, transaction: Transaction, incident: Incident) -> bool:
        """The card of what became quiet while Slack did not take it. False: people may have seen it."""
        return self._steps.take_back(transaction, incident)

    # --- people -----------------------------------------------------------------------------------------------------

    async def acknowledge(self, click: Click) -> Clicked:
        return await self.click(click, Acknowledged(click.user))

    async def said_in_use(self, click: Click) -> Clicked:
        return await self.click(click, SaidInUse(click.user))

    async def not_a_stall(self, click: Click, reason: str = "") -> Clicked:
        return await self.click(click, NotAStall(click.user, reason))

    async def snooze(self, click: Click, until: datetime, reason: str = "") -> Clicked:
        """Only this incident; see `snooze_node`."""
        return await self.click(click, Snoozed(click.user, until, reason))

    async def unsnooze(self, click: Click) -> Clicked:
        return await self.click(click, Unsnoozed(click.user))

    async def click(self, click: Click, event: PeopleEvent) -> Clicked:
        """A press on a card's button, found by its token."""

        def work(transaction: Transaction) -> Clicked:
            found = incidents.incident_of_token(transaction.connection, click.token)
            return self._clicked(transaction, click, found[0] if found else None, event)

        return await self._store.write(work, urgent=True)

    async def command(self, incident_id: int, click: Click, event: PeopleEvent) -> Clicked:
        """The same for an incident that somebody names by its number; the click's token is not used."""

        def work(transaction: Transaction) -> Clicked:
            return self._clicked(transaction, click, incidents.load(transaction.connection, incident_id), event)

        return await self._store.write(work, urgent=True)

    async def snooze_node(self, node: str, until: datetime, click: Click, reason: str = "") -> NodeSnooze:
        """Keeps the node quiet: everything where nothing is open on it, else what is not worse than what is open."""
        worst = max((one.severity for one in self._steps.open.values() if one.node == node), default=EVERYTHING)
        snooze = NodeSnooze(node, until, click.user, reason[:LONGEST_REASON], worst)

        def work(transaction: Transaction) -> None:
            incidents.save_node_snooze(transaction.connection, snooze)
            _record(transaction.connection, click, None, f"snoozed {node}")
            transaction.on_commit(lambda: self._quietness.snoozes.__setitem__(node, snooze))

        await self._store.write(work, urgent=True)
        await self.look_around()
        return snooze

    async def unsnooze_node(self, node: str, click: Click) -> bool:
        """False: the node was not snoozed."""

        def work(transaction: Transaction) -> bool:
            _record(transaction.connection, click, None, f"ended the snooze of {node}")
            transaction.on_commit(lambda: self._quietness.forget(node))
            return incidents.end_node_snooze(transaction.connection, node)

        was_snoozed = await self._store.write(work, urgent=True)
        await self.look_around()
        return was_snoozed

    async def refused(self, click: Click, why: str) -> None:
        """Records a click that was not allowed."""

        def record(transaction: Transaction) -> None:
            found = incidents.incident_of_token(transaction.connection, click.token)
            _record(transaction.connection, click, found[0] if found else None, f"refused: {why}")

        await self._store.write(record, urgent=True)

    def _clicked(
        self, transaction: Transaction, click: Click, incident: Incident | None, event: PeopleEvent
    ) -> Clicked:
        clicked = self._decided(transaction, incident, event) if incident else Clicked(Outcome.UNKNOWN_BUTTON)
        _record(transaction.connection, click, clicked.incident, clicked.outcome)
        return clicked

    def _decided(self, transaction: Transaction, incident: Incident, event: PeopleEvent) -> Clicked:
        if incident.closed_at:
            self._steps.draw(transaction, incident)  # the old card on their screen is drawn anew
            return Clicked(Outcome.CLOSED, incident)
        after = self._steps.apply(transaction, incident, event)
        if after is incident or after is None:
            return Clicked(Outcome.ALREADY, incident)
        return Clicked(Outcome.DONE, after)


def _record(connection: Connection, click: Click, incident: Incident | None, outcome: str) -> None:
    incident_id = incident.id if incident else None
    incidents.record_click(connection, clock.now(), click.team, click.user, click.action, incident_id, outcome)


def _heard_at(connection: Connection, card: OutboxRow | None) -> datetime | None:
    """A message's ts is the time at which Slack took it. None: nobody sees it, or could be reminded of it now.

    Lines of threads from an outage of Slack are dropped: whoever is to be told again is told after it.
    """
    if card is None or card.ts is None or troubles.is_met(connection, troubles.SLACK):
        return None
    return datetime.fromtimestamp(float(card.ts), UTC)
