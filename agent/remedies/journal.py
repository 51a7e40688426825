"""What became of orders, on disk before anything is done: so that nothing is done twice, whatever dies in between."""

import itertools
import logging
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agent.clock import Clock
from agent.remedies.facts import Act
from agent.remedies.refused import Refused
from wire.files import write_private
from wire.orders import Action, Order
from wire.remedies import LONGEST_DETAIL, MOST_TOLD, JournalEntry, OrderState, Refusal
from wire.ticks import sentence
from wire.values import Count, Instant

log = logging.getLogger(__name__)

FILE_NAME = "remedies.json"
VERSION = 1
MOST_ENTRIES = 64
_BEGUN = frozenset({OrderState.ACTING, OrderState.DONE, OrderState.FAILED, OrderState.LOST})
_FIRST_SANE_YEAR = 2026  # a clock that reads less has never been set


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One order. `acted` None: nothing was begun."""

    told: JournalEntry
    acted: "Moment | None" = None


class Moment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By both clocks: the time since boot counts within one boot, the wall clock between two."""

    boot_id: str
    boot_seconds: float
    at: Instant


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. Whoever has not heard the challenge cannot make an order that is taken."""

    version: Count
    challenge: str
    highest_fence: Count = 0
    entries: tuple[Entry, ...] = ()


class JournalError(Exception):
    """The disk refused: nothing may be done. The text says what, and where."""


class Journal:
    """Every change is on disk when its function returns; the outcome alone is told even where the disk refuses it."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self.path, self._clock = state_dir / FILE_NAME, clock
        self._kept = Kept(VERSION, "")
        self.rebooted_for: list[str] = []

    def open(self) -> None:
        """Reads the file, or makes it; ends what an earlier run of the agent left open. Raises JournalError.

        `rebooted_for` then holds the runners because of which the node has just been booted anew.
        """
        try:
            kept = self._read()
        except (OSError, ValueError, msgspec.DecodeError) as error:
            kept = self._begun_anew(error)
        self._keep(replace(kept, entries=tuple(self._ended(entry) for entry in kept.entries)))
        news = (new.told for old, new in zip(kept.entries, self._kept.entries, strict=True) if new is not old)
        self.rebooted_for = [told.runner for told in news if told.state is OrderState.DONE and told.runner]

    @property
    def challenge(self) -> str:
        return self._kept.challenge

    @property
    def highest_fence(self) -> int:
        return self._kept.highest_fence

    @property
    def seen(self) -> frozenset[str]:
        return frozenset(entry.told.order_id for entry in self._kept.entries)

    def under_way(self) -> str:
        """The order that is being carried out, "" for none."""
        open_states = (OrderState.ACCEPTED, OrderState.ACTING)
        return next((e.told.order_id for e in self._kept.entries if e.told.state in open_states), "")

    def told(self) -> list[JournalEntry]:
        """For the heartbeat: the latest orders, the newest last."""
        return [entry.told for entry in self._kept.entries[-MOST_TOLD:]]

    def acts(self) -> tuple[Act, ...]:
        """Everything that was begun here and is still remembered."""
        now = self._now()
        return tuple(
            Act(
                entry.told.action,
                entry.told.runner,
                _seconds_between(entry.acted, now),
                entry.acted.boot_id == now.boot_id,
            )
            for entry in self._kept.entries
            if entry.acted is not None
        )

    def spend(self, order: Order, refused: Refused | None) -> None:
        """An order came that holds the challenge: it is void from now on, also when the order was refused."""
        state = OrderState.ACCEPTED if refused is None else OrderState.REFUSED
        told = JournalEntry(
            order_id=order.order_id,
            action=order.action,
            state=state,
            at=self._clock.wall(),
            boot_id=self._clock.boot_id(),
            runner="" if order.runner is None else order.runner.runner,
            refusal=None if refused is None else refused.code,
            detail="" if refused is None else sentence(refused.why, LONGEST_DETAIL),
        )
        fence = max(self._kept.highest_fence, order.fence)
        entries = tuple(_newest((*self._kept.entries, Entry(told))))
        self._keep(replace(self._kept, challenge=_new_challenge(), highest_fence=fence, entries=entries))

    def saw_fence(self, fence: int) -> None:
        if fence > self._kept.highest_fence:
            self._keep(replace(self._kept, highest_fence=fence))

    def acting(self, order: Order, detail: str) -> None:
        """Right before the first step."""
        self._change(order, OrderState.ACTING, detail, acted=self._now())

    def end(self, order: Order, state: OrderState, detail: str, refusal: Refusal | None = None) -> None:
        """Never raises: what happened is told, also where it cannot be written."""
        try:
            self._change(order, state, detail, refusal)
        except JournalError as error:
            log.error("the outcome of an order is told and cannot be kept order=%s error=%s", order.order_id, error)
            self._kept = self._changed(order, state, detail, refusal)

    def _change(
        self, order: Order, state: OrderState, detail: str, refusal: Refusal | None = None, acted: Moment | None = None
    ) -> None:
        self._keep(self._changed(order, state, detail, refusal, acted))

    def _changed(
        self, order: Order, state: OrderState, detail: str, refusal: Refusal | None = None, acted: Moment | None = None
    ) -> Kept:
        def change(entry: Entry) -> Entry:
            if entry.told.order_id != order.order_id:
                return entry
            told = replace(
                entry.told, state=state, at=self._clock.wall(), refusal=refusal, detail=sentence(detail, LONGEST_DETAIL)
            )
            return Entry(told, None if state is OrderState.REFUSED else acted or entry.acted)

        return replace(self._kept, entries=tuple(change(entry) for entry in self._kept.entries))

    def _ended(self, entry: Entry) -> Entry:
        """What an earlier run of the agent did not end. It is never begun again."""
        told = entry.told
        if told.state is OrderState.ACCEPTED:
            why = "the agent was stopped before it began: nothing was done"
            told = replace(told, state=OrderState.REFUSED, refusal=Refusal.AGENT_STOPPED, detail=why)
        elif told.state is OrderState.ACTING and told.boot_id != self._clock.boot_id():
            is_reboot = told.action is Action.REBOOT_NODE
            why = "the node is in another boot now"
            told = replace(told, state=OrderState.DONE if is_reboot else OrderState.LOST, detail=why)
        elif told.state is OrderState.ACTING:
            why = "the agent was stopped between its beginning and its end: what became of it is not known"
            told = replace(told, state=OrderState.LOST, detail=why)
        return entry if told is entry.told else Entry(replace(told, at=self._clock.wall()), entry.acted)

    def _read(self) -> Kept:
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=Kept)
        except FileNotFoundError:
            return Kept(VERSION, _new_challenge())
        if kept.version != VERSION or not kept.challenge:
            raise ValueError(f"it is of version {kept.version}, this agent writes version {VERSION}")
        return kept

    def _begun_anew(self, why: Exception) -> Kept:
        """Nobody knows what was done lately, so that this counts as one of everything."""
        log.error("the journal of orders cannot be used, it is moved aside and begun anew path=%s %s", self.path, why)
        names = (self.path.with_name(f"{FILE_NAME}.damaged-{number}") for number in itertools.count(1))
        try:
            os.replace(self.path, next(name for name in names if not name.exists()))
        except OSError as error:
            raise JournalError(f"{self.path} cannot be moved aside: {error.strerror}") from error
        words = "the journal could not be read and was begun anew"
        now = self._now()
        told = JournalEntry("journal", Action.UNKNOWN, OrderState.LOST, now.at, now.boot_id, detail=words)
        return Kept(VERSION, _new_challenge(), entries=(Entry(told, now),))

    def _keep(self, kept: Kept) -> None:
        try:
            write_private(self.path, msgspec.json.encode(kept).decode() + "\n")
        except OSError as error:
            raise JournalError(f"{self.path} cannot be written: {error.strerror}") from error
        self._kept = kept

    def _now(self) -> Moment:
        return Moment(self._clock.boot_id(), self._clock.boottime_seconds(), self._clock.wall())


def _seconds_between(then: Moment, now: Moment) -> float:
    """Between two boots the wall clock counts, where it can be believed; else this boot's age, the least it can be."""
    if then.boot_id == now.boot_id:
        return max(0.0, now.boot_seconds - then.boot_seconds)
    passed = (now.at - then.at).total_seconds()
    return passed if passed >= 0 and then.at.year >= _FIRST_SANE_YEAR else now.boot_seconds


def _newest(entries: Iterable[Entry]) -> list[Entry]:
    """What was begun stays longest, since limits rest on it; the last one stays in any case."""
    kept = list(entries)
    while len(kept) > MOST_ENTRIES:
        idle = next((entry for entry in kept[:-1] if entry.acted is None), kept[0])
        kept.remove(idle)
    return kept


def _new_challenge() -> str:
    return secrets.token_hex(16)
