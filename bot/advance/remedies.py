"""Requests for remedies, written: asked for, decided, and stepped, each in one transaction with its record."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from sqlalchemy import Connection

from bot import clock
from bot.advance.clicks import Click
from bot.advance.obstacles import Obstacles
from bot.advance.settings import AdvanceSettings
from bot.advance.steps import Steps
from bot.fleet import Fleet
from bot.incident import Incident, RemedyAsked, RemedyMoved, Tried
from bot.judge.verdict import Said
from bot.remedy.approvers import Approvers, refusal
from bot.remedy.blockers import BUDGET_WITHIN, Blocker, Switch, Wanted, blockers, unaccepted, wanted_of
from bot.remedy.look import Plan, verdict_of
from bot.remedy.model import (
    ENDED,
    Approve,
    Blocked,
    Counted,
    Deny,
    Needed,
    NoAnswer,
    Remedy,
    RemedyEvent,
    Send,
    State,
    Stop,
)
from bot.store import audit, incidents, remedies
from bot.store.audit import Entry
from bot.store.writer import Store, Transaction
from wire.orders import LIFE, ORDER_VERSION, BadOrderError, Order

_TOLD_TO_THE_STALL = ENDED | {State.ASKED, State.COUNTING, State.ACCEPTED}


class Ask(msgspec.Struct, frozen=True):
    """What somebody saw and asks for. `policy` is the line of the config that asks in place of a person."""

    plan: Plan
    by: str
    reason: str
    accepted: tuple[str, ...] = ()
    about: int | None = None
    policy: str = ""


class Asking(msgspec.Struct, frozen=True):
    """The new request, or all that stands in its way."""

    incident: Incident | None
    blockers: Sequence[Blocker] = ()


class Decided(msgspec.Struct, frozen=True):
    """What a press came to: `refused` is the key of the sentence that says why it changed nothing."""

    incident: Incident | None
    refused: str = ""


class Remedies:
    """`acted` is what left in the last day, as of the latest look around."""

    def __init__(self, store: Store, fleet: Fleet, steps: Steps, settings: AdvanceSettings) -> None:
        self._store = store
        self._fleet = fleet
        self._steps = steps
        self._settings = settings
        self.obstacles = Obstacles(fleet, settings)
        self.acted: Sequence[remedies.Acted] = ()

    async def start(self) -> None:
        """What was on its way is never sent again, countdowns begin anew, and the config of now counts."""
        for incident in await self._store.read(remedies.unfinished):
            await self.move(incident.id, Needed(self._approvals(incident.node)))
            await self.move(incident.id, NoAnswer())
            await self.move(incident.id, Counted(runs=False))

    async def look_back(self) -> None:
        since = clock.now() - BUDGET_WITHIN
        self.acted = await self._store.read(lambda connection: remedies.acted_since(connection, since))

    # --- asking -----------------------------------------------------------------------------------------------------

    async def in_the_way(self, ask: Ask, approvers: Approvers, *, has_bus: bool) -> Sequence[Blocker]:
        """Every blocker of this moment, also those that may be accepted; writes nothing."""
        wanted = _wanted(ask)

        def work(connection: Connection) -> Sequence[Blocker]:
            return blockers(wanted, self.obstacles.facts(connection, wanted, approvers=approvers, has_bus=has_bus))

        return await self._store.read(work)

    async def ask(self, ask: Ask, approvers: Approvers, *, has_bus: bool) -> Asking:
        def work(transaction: Transaction) -> Asking:
            connection, now = transaction.connection, clock.now()
            wanted = _wanted(ask)
            found = blockers(wanted, self.obstacles.facts(connection, wanted, approvers=approvers, has_bus=has_bus))
            if left := unaccepted(found, ask.accepted):
                why = " ".join(one.name for one in left)
                audit.append(
                    connection, Entry(now, ask.by, f"asked for {ask.plan.action}: blocked", why, 0, wanted.node)
                )
                return Asking(None, left)
            request = self._request(ask, now, accepted=tuple(one.name for one in found if one.acceptable))
            mentions = () if request.policy else tuple(approvers.people())
            incident = self._steps.apply(transaction, None, RemedyAsked(request, mentions))
            if incident is not None:
                self._tell_the_stall(transaction, incident)
            return Asking(incident)

        return await self._store.write(work, urgent=True)

    def _request(self, ask: Ask, now: datetime, accepted: tuple[str, ...]) -> Remedy:
        plan, group = ask.plan, self._settings.group_of(ask.plan.node)
        about = self._steps.open_by_number(ask.about) if ask.about else None
        times = self._settings.times
        return Remedy(
            action=plan.action,
            node=plan.node,
            group=group.name if group else "",
            asked_by=ask.by,
            asked_at=now,
            expires_at=now + times.approval,
            reason=ask.reason,
            boot_id=plan.boot_id,
            spool_epoch=plan.spool_epoch,
            times=times,
            runner=plan.runner,
            about=ask.about,
            policy=ask.policy,
            needed=self._approvals(plan.node),
            processes=tuple(sorted(plan.processes or ())),
            shown=plan.shown,
            gpus=plan.gpus,
            sick=plan.sick,
            verdict=verdict_of(about.what) if about else verdict_of(""),
            facts=plan.facts,
            accepted=accepted,
            is_own_host=plan.boot_id == self._settings.own_boot_id,
            state=State.COUNTING if ask.policy else State.ASKED,
        )

    def _approvals(self, node: str) -> int:
        """So many people must agree, as the config says now."""
        group = self._settings.group_of(node)
        return group.approvals if group else 1

    # --- deciding ---------------------------------------------------------------------------------------------------

    async def approve(
        self, click: Click, approvers_of: Callable[[str], Approvers], reason: str = "", number: int | None = None
    ) -> Decided:
        """`approvers_of` the node; `number` in place of the click's token for somebody who names the request."""

        def refused(request: Remedy) -> str | None:
            if request.state is not State.ASKED:
                return "reply.stale"
            return refusal(request, click.user, approvers_of(request.node))

        return await self._decide(click, Approve(click.user, reason), refused, number)

    async def deny(
        self, click: Click, approvers_of: Callable[[str], Approvers], reason: str = "", number: int | None = None
    ) -> Decided:
        """By whoever may approve, and by the one who asked."""

        def refused(request: Remedy) -> str | None:
            if request.state is not State.ASKED:
                return "reply.stale"
            is_own = click.user == request.asked_by
            is_allowed = is_own or click.user in approvers_of(request.node)
            return None if is_allowed else "refused.not_approver"

        return await self._decide(click, Deny(click.user, reason), refused, number)

    async def stop(self, click: Click, number: int | None = None) -> Decided:
        """By anybody of the workspace, with any button that was ever drawn, until the order leaves: to stop is always
        safe."""

        def refused(request: Remedy) -> str | None:
            is_unsent = request.state is State.COUNTING or (request.policy and request.state is State.APPROVED)
            return None if is_unsent else "reply.stale"

        return await self._decide(click, Stop(click.user), refused, number)

    async def _decide(
        self, click: Click, event: RemedyEvent, refused: Callable[[Remedy], str | None], number: int | None
    ) -> Decided:
        def work(transaction: Transaction) -> Decided:
            connection = transaction.connection
            incident, revision = _found(connection, click, number)
            revision = None if isinstance(event, Stop) else revision
            decided = self._decided(transaction, incident, revision, event, refused)
            self._note(connection, click, decided)
            return decided

        return await self._store.write(work, urgent=True)

    def _decided(
        self,
        transaction: Transaction,
        incident: Incident | None,
        revision: int | None,
        event: RemedyEvent,
        refused: Callable[[Remedy], str | None],
    ) -> Decided:
        if incident is None or incident.remedy is None:
            return Decided(None, "reply.unknown_button")
        incident = self._as_configured(transaction, incident, incident.remedy)
        if incident.closed_at:
            return Decided(incident, "reply.decided")
        if revision is not None and revision != incident.decision_revision:
            return Decided(incident, "reply.stale")
        why = refused(incident.remedy) if incident.remedy else None
        if why is not None:
            return Decided(incident, why)
        after = self._moved(transaction, incident, event)
        # Its time was over: what the press came to is that it has expired.
        has_expired = after.remedy is not None and after.remedy.state is State.EXPIRED
        return Decided(after, "reply.decided" if has_expired else "")

    def _note(self, connection: Connection, click: Click, decided: Decided) -> None:
        number = decided.incident.id if decided.incident else None
        outcome = f"refused: {decided.refused.partition('.')[2]}" if decided.refused else "done"
        incidents.record_click(connection, clock.now(), click.team, click.user, click.action, number, outcome)
        if decided.refused:
            node = decided.incident.node if decided.incident else ""
            entry = Entry(clock.now(), click.user, f"{click.action}: refused", decided.refused, number or 0, node)
            audit.append(connection, entry)

    async def refused(self, click: Click, why: str) -> None:
        """A press of somebody who may not press at all."""

        def work(transaction: Transaction) -> None:
            incident, _ = _found(transaction.connection, click, None)
            self._note(transaction.connection, click, Decided(incident, why))

        await self._store.write(work, urgent=True)

    # --- stepping ---------------------------------------------------------------------------------------------------

    async def move(self, number: int, event: RemedyEvent) -> Incident | None:
        def work(transaction: Transaction) -> Incident | None:
            incident = incidents.load(transaction.connection, number)
            return self._moved(transaction, incident, event) if incident else None

        return await self._store.write(work)

    def _as_configured(self, transaction: Transaction, incident: Incident, request: Remedy) -> Incident:
        """A press, or an order, may come before `start` has looked at this request."""
        needed = self._approvals(request.node)
        return self._moved(transaction, incident, Needed(needed)) if needed > request.needed else incident

    def void_unsent(self, transaction: Transaction, by: str) -> None:
        """Ends every request whose order has not left: the database was brought back to an earlier time."""
        for incident in remedies.unfinished(transaction.connection):
            self._moved(transaction, incident, Stop(by))

    def _moved(self, transaction: Transaction, incident: Incident, event: RemedyEvent) -> Incident:
        after = self._steps.apply(transaction, incident, RemedyMoved(event)) or incident
        if after is not incident:
            self._tell_the_stall(transaction, after)
        return after

    def _tell_the_stall(self, transaction: Transaction, incident: Incident) -> None:
        request = incident.remedy
        if request is None or request.about is None or request.state not in _TOLD_TO_THE_STALL:
            return
        stall = incidents.load(transaction.connection, request.about)
        if stall is not None:
            self._steps.apply(transaction, stall, Tried(incident.id, request.action, request.state))

    # --- the order --------------------------------------------------------------------------------------------------

    async def begin(
        self, number: int, order_id: str, approvers: Approvers, sign: Callable[[Order], bytes], *, has_bus: bool
    ) -> bytes | None:
        """Asks every blocker again and writes `sending`; what comes back is committed, and may be sent once.

        None: something stood in its way, or it is not to be sent any more.
        """

        def work(transaction: Transaction) -> bytes | None:
            incident = incidents.load(transaction.connection, number)
            if incident is None or incident.remedy is None:
                return None
            incident = self._as_configured(transaction, incident, incident.remedy)
            request = incident.remedy
            if request is None or request.state is not State.APPROVED:
                return None
            wanted = wanted_of(request)
            facts = self.obstacles.facts(
                transaction.connection, wanted, approvers=approvers, has_bus=has_bus, number=number, request=request
            )
            if left := unaccepted(blockers(wanted, facts), request.accepted):
                self._moved(transaction, incident, Blocked(tuple(one.said for one in left)))
                return None
            try:
                signed = sign(self._order(request, number, order_id, facts.fence))
            except BadOrderError as error:
                self._moved(transaction, incident, Blocked((_cannot_be_signed(error),)))
                return None
            after = self._moved(transaction, incident, Send(order_id, facts.fence))
            is_sending = after.remedy is not None and after.remedy.state is State.SENDING
            return signed if is_sending else None

        return await self._store.write(work, urgent=True)

    def _order(self, request: Remedy, number: int, order_id: str, fence: int) -> Order:
        seen = self._fleet.seen(request.node)
        offered = seen.heartbeat.remedies if seen else None
        if offered is None:
            raise BadOrderError("the node does not say its challenge")
        now = clock.now()
        return Order(
            version=ORDER_VERSION,
            order_id=order_id,
            action=request.action,
            node=request.node,
            boot_id=request.boot_id,
            spool_epoch=request.spool_epoch,
            challenge=offered.challenge,
            fence=fence,
            incident_id=number,
            verdict=request.verdict,
            issued=now,
            expires=now + min(LIFE, request.times.order),
            runner=request.facts,
            processes=list(request.processes),
            anything_may_run="unreadable" in request.accepted,
            accepted_blockers=list(request.accepted),
            approvers=[one.by for one in request.approvals],
            policy=request.policy,
            reason=request.reason,
        )

    # --- the kill switch --------------------------------------------------------------------------------------------

    async def stop_all(self, by: str, reason: str) -> int:
        """Stops what was not sent yet, and everything from now on; how many requests that were."""

        def work(transaction: Transaction) -> int:
            connection, now = transaction.connection, clock.now()
            remedies.stop(connection, Switch(by, now, reason))
            audit.append(connection, Entry(now, by, "all remedies stopped", reason))
            waiting = [one for one in remedies.unfinished(connection) if one.remedy and not one.remedy.sent_at]
            for incident in waiting:
                self._moved(transaction, incident, Stop(by))
            return len(waiting)

        return await self._store.write(work, urgent=True)

    async def resume(self, by: str) -> bool:
        """False: they were not stopped."""

        def work(transaction: Transaction) -> bool:
            was_stopped = remedies.resume(transaction.connection)
            if was_stopped:
                audit.append(transaction.connection, Entry(clock.now(), by, "remedies allowed again"))
            return was_stopped

        return await self._store.write(work, urgent=True)


def _wanted(ask: Ask) -> Wanted:
    plan = ask.plan
    processes = None if plan.processes is None else tuple(plan.processes)
    return Wanted(
        plan.action,
        plan.node,
        plan.runner,
        plan.boot_id,
        plan.spool_epoch,
        processes,
        ask.accepted,
        ask.about,
        ask.policy,
        ask.by,
    )


def _found(connection: Connection, click: Click, number: int | None) -> tuple[Incident | None, int | None]:
    """The request, and the decision that the button was drawn after; None where somebody named it by its number."""
    if number is not None:
        return incidents.load(connection, number), None
    return incidents.incident_of_token(connection, click.token) or (None, None)


def _cannot_be_signed(error: BadOrderError) -> Said:
    return Said("blocker.order", {"why": str(error)[:200]})
