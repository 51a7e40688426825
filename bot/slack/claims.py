"""Claims as people make and end them, and the question to the holder when one is about to end."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from enum import StrEnum
from functools import partial

import msgspec
from msgspec.structs import replace
from sqlalchemy.exc import SQLAlchemyError

from bot import clock
from bot.advance import Advance, Click
from bot.claims import Claim, is_to_ask, kept_until, tomorrow
from bot.fleet import Fleet
from bot.render.claims import ASK, ENDED, KEEP, KEEP_TOMORROW, KEPT, RELEASED, values_of
from bot.store import claims, incidents, outbox
from bot.store.claims import Ended
from bot.store.writer import Store, Transaction

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 5.0
LONGEST_REASON = 200
_HOST = "host:"


class Wanted(msgspec.Struct, frozen=True):
    """What somebody claims: GPUs of one node as UUID to index, until when, and why."""

    node: str
    gpus: Mapping[str, int]
    until: datetime
    reason: str = ""


class Taken(msgspec.Struct, frozen=True):
    """What a claim came to: all of it, or nothing because of those that are `in_the_way`.

    `moved`: all of them were the same person's already.
    """

    claims: Sequence[Claim] = ()
    in_the_way: Sequence[Claim] = ()
    moved: bool = False


class Answered(StrEnum):
    """What a press on the question came to."""

    KEPT = "kept"
    RELEASED = "released"
    ALREADY = "already"
    OVER = "over"
    NOT_YOURS = "not_yours"
    UNKNOWN = "unknown_button"


class Pressed(msgspec.Struct, frozen=True):
    """`claim` is None only for an unknown button; `ended_at` only for one that is over."""

    answered: Answered
    claim: Claim | None = None
    ended_at: datetime | None = None


class Claims:
    """The only writer of claims. `may_ask` False: nothing leaves the bot (shadow mode)."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        advance: Advance,
        zone: tzinfo,
        wake: Callable[[], None],
        *,
        may_ask: bool = True,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._advance = advance
        self._zone = zone
        self._wake = wake
        self._may_ask = may_ask

    # --- by people --------------------------------------------------------------------------------------------------

    async def claim(self, wanted: Wanted, click: Click) -> Taken:
        """All GPUs or none. What the same person holds already gets the new end and reason."""
        taken = await self._store.write(lambda transaction: self._claim(transaction, wanted, click), urgent=True)
        await self._judge_again(wanted.node)
        return taken

    def _claim(self, transaction: Transaction, wanted: Wanted, click: Click) -> Taken:
        now, connection = clock.now(), transaction.connection
        present = {one.gpu_uuid: one for one in claims.claims_of_node(connection, wanted.node, now)}
        others = [one for uuid, one in present.items() if uuid in wanted.gpus and one.by != click.user]
        _record(transaction, click, f"claim of {wanted.node}: {'in the way' if others else 'done'}")
        if others:
            return Taken(in_the_way=others)
        moved = all(uuid in present for uuid in wanted.gpus)
        made = [self._one(transaction, wanted, uuid, present.get(uuid), click.user) for uuid in wanted.gpus]
        return Taken(made, moved=moved)

    def _one(self, transaction: Transaction, wanted: Wanted, uuid: str, mine: Claim | None, user: str) -> Claim:
        now, reason = clock.now(), wanted.reason[:LONGEST_REASON]
        if mine is not None:
            changed = replace(mine, until=wanted.until, reason=reason or mine.reason, asked_at=None)
            self._save(transaction, changed)
            if mine.asked_at is not None:  # the question still stands there: this answers it
                self._tell(transaction, changed, KEPT)
            return changed
        if over := claims.claim_of(transaction.connection, wanted.node, uuid):
            self._end(transaction, over, Ended(over.until), ENDED)
        new = Claim(wanted.node, uuid, wanted.gpus[uuid], user, since=now, until=wanted.until, reason=reason)
        saved = claims.add(transaction.connection, new)
        transaction.on_commit(lambda: self._fleet.note_claim(saved))
        return saved

    async def release(
        self, node: str, gpus: Iterable[str], click: Click, *, may_others: bool
    ) -> tuple[list[Claim], list[Claim]]:
        """What was released, and what belongs to others and stays. `may_others`: the person may end those too."""
        wanted = set(gpus)

        def work(transaction: Transaction) -> tuple[list[Claim], list[Claim]]:
            now = clock.now()
            held = [one for one in claims.claims_of_node(transaction.connection, node, now) if one.gpu_uuid in wanted]
            ended = [one for one in held if may_others or one.by == click.user]
            for one in ended:
                self._end(transaction, one, Ended(now, click.user), RELEASED)
            _record(transaction, click, f"released {len(ended)} of {node}")
            return ended, [one for one in held if one not in ended]

        found = await self._store.write(work, urgent=True)
        await self._judge_again(node)
        return found

    async def pressed(self, click: Click) -> Pressed:
        """A button of the question; its action is the click's."""
        pressed = await self._store.write(lambda transaction: self._pressed(transaction, click), urgent=True)
        if pressed.claim is not None:
            await self._judge_again(pressed.claim.node)
        return pressed

    def _pressed(self, transaction: Transaction, click: Click) -> Pressed:
        now, found = clock.now(), claims.claim_of_token(transaction.connection, click.token)
        pressed = Pressed(Answered.UNKNOWN) if found is None else self._decided(transaction, click, *found, now)
        _record(transaction, click, pressed.answered)
        return pressed

    def _decided(
        self, transaction: Transaction, click: Click, claim: Claim, ended: Ended | None, now: datetime
    ) -> Pressed:
        if claim.by != click.user:
            return Pressed(Answered.NOT_YOURS, claim)
        if ended is not None or not claim.holds(now):
            return Pressed(Answered.OVER, claim, ended.at if ended else claim.until)
        if claim.asked_at is None:
            return Pressed(Answered.ALREADY, claim)
        if click.action not in (KEEP, KEEP_TOMORROW):
            self._end(transaction, claim, Ended(now, click.user), RELEASED)
            return Pressed(Answered.RELEASED, claim)
        until = kept_until(claim) if click.action == KEEP else tomorrow(now, self._zone)
        kept = replace(claim, until=max(until, claim.until), asked_at=None)
        self._save(transaction, kept)
        self._tell(transaction, kept, KEPT)
        return Pressed(Answered.KEPT, kept)

    # --- by the clock -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except SQLAlchemyError as error:
                log.error("claims cannot be looked at, trying on error=%s", error)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def look(self) -> None:
        """Asks the holders of what is about to end, and ends what is over."""
        now = clock.now()
        for claim in await self._store.read(claims.not_ended):
            if not claim.holds(now):
                await self._store.write(partial(self._run_out, claim))
                await self._judge_again(claim.node)
            elif self._may_ask and is_to_ask(claim, now) and not claim.by.startswith(_HOST):
                await self._store.write(partial(self._ask, claim))

    def _run_out(self, seen: Claim, transaction: Transaction) -> None:
        present = claims.claim_of(transaction.connection, seen.node, seen.gpu_uuid)
        if present is not None and present.id == seen.id and not present.holds(clock.now()):
            self._end(transaction, present, Ended(present.until), ENDED)

    def _ask(self, seen: Claim, transaction: Transaction) -> None:
        present = claims.claim_of(transaction.connection, seen.node, seen.gpu_uuid)
        if present is not None and present.id == seen.id and is_to_ask(present, clock.now()):
            asked = replace(present, asked_at=clock.now(), asks=present.asks + 1)
            self._save(transaction, asked)
            self._tell(transaction, asked, ASK)

    # --- what is written --------------------------------------------------------------------------------------------

    def _save(self, transaction: Transaction, changed: Claim) -> None:
        claims.save(transaction.connection, changed)
        transaction.on_commit(lambda: self._fleet.note_claim(changed))

    def _end(self, transaction: Transaction, claim: Claim, ended: Ended, key: str) -> None:
        claims.end(transaction.connection, claim.id, ended)
        transaction.on_commit(lambda: self._fleet.forget_claim(claim))
        if claim.asks:
            self._tell(transaction, claim, key)

    def _tell(self, transaction: Transaction, claim: Claim, key: str) -> None:
        """The holder's message: one for each question, edited by what comes of it."""
        if not self._may_ask or claim.by.startswith(_HOST):
            return
        delivery_key = f"claim {claim.token} {claim.asks}"
        outbox.want_notice(transaction.connection, claim.by, key, values_of(claim), delivery_key, clock.now())
        transaction.on_commit(self._wake)

    async def _judge_again(self, node: str) -> None:
        """So that its card says at once what changed."""
        await self._advance.refresh(node)
        self._wake()


def _record(transaction: Transaction, click: Click, outcome: str) -> None:
    incidents.record_click(transaction.connection, clock.now(), click.team, click.user, click.action, None, outcome)
