"""The loop that carries out what was approved: sends each order at most once, and watches the proof."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from nacl.signing import SigningKey
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.act.lists import ApproverLists
from bot.act.policies import Policies
from bot.advance import Advance
from bot.advance.obstacles import has_a_person, stall_of
from bot.fleet import Fleet
from bot.incident import Incident
from bot.judge.verdict import Said
from bot.order_key import read_order_keys
from bot.remedy.blockers import Stall
from bot.remedy.look import seen
from bot.remedy.model import (
    Answered,
    Blocked,
    Counted,
    NoAnswer,
    NobodyThere,
    Remedy,
    RemedyEvent,
    State,
    Tick,
)
from bot.remedy.step import step
from bot.store import incidents, outbox, remedies
from bot.store.writer import Store
from wire import subjects
from wire.acks import Failure, FailureKind
from wire.configfile import ConfigError
from wire.link import Link
from wire.orders import sign_order
from wire.remedies import BadAnswerError, decode_answer

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
ANSWER_DEADLINE = timedelta(seconds=10)
HELD_UP = timedelta(seconds=10)  # this loop did not run, as on a host that slept: nor could a click have been heard
FIRST_HEARTBEAT_SECONDS = 300.0  # until then this bot, which has just begun, may only not have heard the node yet
Pressable = Callable[[], bool]


class CarryOut:
    """One for each bot that works."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        advance: Advance,
        link: Link,
        lists: ApproverLists,
        data_dir: Path,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._remedies = advance.remedies
        self._link = link
        self._lists = lists
        self._data_dir = data_dir
        self._policies = Policies(fleet, advance, lists, lambda: link.is_connected)
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._failing = ""
        self._looked_at = clock.now()
        self._began_seconds = clock.monotonic_seconds()
        self.first_heartbeat_seconds = FIRST_HEARTBEAT_SECONDS

    async def run(self, can_press: Pressable, look_every_seconds: float = LOOK_EVERY_SECONDS) -> None:
        """Until it is cancelled. What was on its way when the last bot stopped is never sent again.

        `can_press` says whether a press on a card could arrive this moment.
        """
        has_started, before = False, clock.now()
        while True:
            now = self._looked_at = clock.now()  # the clock of countdowns: one that was set must not end them
            try:
                if not has_started:
                    await self._remedies.start()
                    has_started = True
                await self.turn(can_press=can_press() and abs(now - before) <= HELD_UP)
                self._failing = ""
            except SQLAlchemyError as error:
                self._say("remedies cannot be looked after, the database takes nothing", error)
            except Exception as error:  # it must look again, whatever it was
                self._say("remedies could not be looked after", error)
            before = now
            await asyncio.sleep(look_every_seconds)

    def _say(self, what: str, error: Exception) -> None:
        if what != self._failing:
            log.error("%s error=%s", what, error, exc_info=not isinstance(error, SQLAlchemyError))
        self._failing = what

    async def turn(self, *, can_press: bool) -> None:
        """One look at every unfinished request, and at what a policy may ask for."""
        for incident in await self._store.read(remedies.unfinished):
            if incident.remedy is not None:
                await self._one_alone(incident, incident.remedy, can_press)
        await self._policies.turn()

    async def _one_alone(self, incident: Incident, request: Remedy, can_press: bool) -> None:
        """One request that fails in a new way must not keep all others waiting."""
        try:
            await self._one(incident, request, can_press)
        except SQLAlchemyError:
            raise
        except Exception as error:
            self._say(f"remedy {incident.id} could not be looked after", error)

    async def _one(self, incident: Incident, request: Remedy, can_press: bool) -> None:
        if request.state is State.APPROVED and request.expires_at > clock.now():
            self._begin_sending(incident, request)
        elif request.state is State.COUNTING:
            await self._count(incident, request, can_press)
        elif request.state is State.SENDING:
            if incident.id not in self._sending:  # its commit was not heard of: nobody knows whether it left
                await self._move(incident, request, NoAnswer())
        elif request.sent_at is None or not self._is_to_be_heard(request.node):
            await self._move(incident, request, self._look(request))

    def _is_to_be_heard(self, node: str) -> bool:
        """Its own host may have been rebooted for longer than the proof has: it looks before it calls that failed."""
        is_early = clock.monotonic_seconds() - self._began_seconds <= self.first_heartbeat_seconds
        return is_early and self._fleet.seen(node) is None

    def _look(self, request: Remedy) -> RemedyEvent:
        beat = self._fleet.seen(request.node)
        if request.sent_at is None or beat is None:
            return Tick()
        heard_at = clock.now() - timedelta(seconds=beat.age_seconds)
        return seen(request, beat.heartbeat, heard_at) if heard_at > request.sent_at else Tick()

    async def _count(self, incident: Incident, request: Remedy, can_press: bool) -> None:
        about = request.about
        stall = await self._store.read(lambda connection: incidents.load(connection, about)) if about else None
        holds = stall_of(stall) if stall is not None else Stall.OVER
        if holds in (Stall.OVER, Stall.OTHER):
            await self._move(incident, request, Blocked((Said(f"blocker.{holds}"),)))
            return
        if stall is not None and has_a_person(stall):
            await self._move(incident, request, Blocked((Said("blocker.person"),)))
            return
        if self._is_taken_back(request):
            await self._move(incident, request, Blocked((Said("blocker.policy"),)))
            return
        card = await self._store.read(lambda connection: outbox.card_of(connection, incident.id))
        is_posted = card is not None and card.ts is not None and card.last_error is None
        await self._move(incident, request, Counted(is_posted and can_press and holds is Stall.HOLDS, self._looked_at))

    def _is_taken_back(self, request: Remedy) -> bool:
        """A config does not allow the policy any more; of a node that was not heard yet nobody knows."""
        is_heard = self._fleet.seen(request.node) is not None
        return is_heard and not self._remedies.obstacles.allows_policy(request.node, request.action)

    async def _move(self, incident: Incident, request: Remedy, event: RemedyEvent) -> None:
        """Writes only where the event changes something."""
        if step(request, event, clock.now())[0] is not request:
            await self._remedies.move(incident.id, event)

    # --- the order --------------------------------------------------------------------------------------------------

    def _begin_sending(self, incident: Incident, request: Remedy) -> None:
        """After a start it waits for the node's first heartbeat, as long as the approval holds."""
        if incident.id in self._sending or self._fleet.seen(request.node) is None:
            return
        task = asyncio.create_task(self._send(incident.id, request), name=f"order of remedy {incident.id}")
        self._sending[incident.id] = task
        task.add_done_callback(lambda _: self._sending.pop(incident.id, None))

    async def _send(self, number: int, request: Remedy) -> None:
        try:
            await self._send_once(number, request)
        except SQLAlchemyError as error:
            log.error("an order could not be written down; remedy=%d error=%s", number, error)
        except Exception:
            log.exception("an order failed for a reason that nobody foresaw; remedy=%d", number)

    async def _send_once(self, number: int, request: Remedy) -> None:
        for by in {one.by for one in request.approvals} or {""}:
            await self._lists.refresh(request.node, by)
        try:
            key = (await asyncio.to_thread(read_order_keys, self._data_dir)).signing
        except ConfigError as error:
            await self._remedies.move(number, Blocked((Said("blocker.order", {"why": str(error)[:200]}),)))
            return
        body = await self._begin(number, request, key)
        if body is not None:  # from here on it may have been carried out
            await self._remedies.move(number, await self._sent(request.node, body))

    async def _begin(self, number: int, request: Remedy, key: SigningKey) -> bytes | None:
        order_id = secrets.token_hex(16)
        return await self._remedies.begin(
            number,
            order_id,
            self._lists.of(request.node),
            lambda order: sign_order(key, order),
            has_bus=self._link.is_connected,
        )

    async def _sent(self, node: str, body: bytes) -> RemedyEvent:
        """Raises LostLeaseError, with nothing sent: the bot that works now finds the order as one on its way."""
        self._store.check()
        answer = await self._link.request(subjects.command(node), body, ANSWER_DEADLINE)
        if isinstance(answer, Failure):
            return NobodyThere() if answer.kind is FailureKind.NO_RESPONDERS else NoAnswer()
        try:
            given = decode_answer(node, answer)
        except BadAnswerError as error:
            log.error("a node's answer to an order cannot be read; node=%s error=%s", node, error)
            return NoAnswer()
        return Answered(given.accepted, given.detail or str(given.refusal or ""))
