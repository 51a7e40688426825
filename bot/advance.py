"""The only writer of incidents: load, step, save and outbox, in one transaction."""

import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from sqlalchemy import Connection

from bot import clock
from bot.fleet import Fleet
from bot.incident import (
    Acknowledged,
    Effect,
    Event,
    Incident,
    Judged,
    Kind,
    SaidInUse,
    ShowCard,
    step,
)
from bot.judge.candidate import sample_of
from bot.judge.track import NodeTrack, with_held_sample
from bot.judge.verdict import Presence
from bot.store import incidents, outbox, windows
from bot.store.writer import Store, Transaction
from wire.messages import Verdict


class Click(msgspec.Struct, frozen=True):
    """A press on a button or menu. All are Slack's ids; `token` is what the button carried."""

    token: str
    action: str
    user: str
    team: str


class Outcome(StrEnum):
    """What a click came to. STALE: the card was drawn before somebody decided something that this click needs."""

    DONE = "done"
    ALREADY = "already"
    STALE = "stale"
    CLOSED = "closed"
    UNKNOWN_BUTTON = "unknown_button"


class Clicked(msgspec.Struct, frozen=True):
    outcome: Outcome
    incident: Incident | None = None


class AdvanceSettings(msgspec.Struct, frozen=True):
    """`gather` holds a first card back so that GPUs that become free together share it."""

    gather: timedelta
    edit_every: timedelta
    shadow: bool


class Advance:
    """Steps incidents, by what nodes report and by what people press."""

    def __init__(self, store: Store, fleet: Fleet, settings: AdvanceSettings) -> None:
        self._store = store
        self._fleet = fleet
        self._settings = settings
        self._open: dict[str, Incident] = {}
        self._last_judged: dict[str, object] = {}
        self._on_outbox: list[Callable[[], None]] = []

    async def start(self) -> None:
        """Takes up the incidents that were open when the last bot stopped."""
        for incident in await self._store.read(incidents.all_open):
            self._open[incident.node] = incident
        if not self._settings.shadow:
            await self._store.write(lambda transaction: outbox.end_shadow(transaction.connection, clock.now()))

    def on_outbox(self, call: Callable[[], None]) -> None:
        """`call` runs in the writer thread after every commit that left something to send."""
        self._on_outbox.append(call)

    # --- nodes ------------------------------------------------------------------------------------------------------

    async def refresh(self, node: str) -> None:
        """Judges the node afresh, and writes only when something about it is different."""
        if self._needs_a_look(node):
            await self._store.write(lambda transaction: self.judge_in(transaction, node))

    async def refresh_open(self) -> None:
        """Judges again every node with an open incident: time alone makes a heartbeat old."""
        for node in list(self._open):
            await self.refresh(node)

    def judge_in(self, transaction: Transaction, node: str, track: NodeTrack | None = None) -> None:
        """The same inside a transaction; `track` is the node's track where this transaction has a newer one."""
        track = track or self._fleet.tracks.get(node)
        if track is None or not self._is_of_interest(track):
            return
        track = self._with_held_samples(transaction, track)
        judged = self._fleet.judged(node, track)
        transaction.on_commit(lambda: self._last_judged.__setitem__(node, _signature(judged)))
        if node in self._open or _somebody_is_free(judged):
            self._step(transaction, incidents.open_of(transaction.connection, Kind.CANDIDATE, node), judged)

    def _is_of_interest(self, track: NodeTrack) -> bool:
        """Without an open card and without a long enough streak there is nothing to open and nothing to end."""
        return track.node in self._open or any(gpu.streak >= self._fleet.rule.windows for gpu in track.gpus.values())

    def _needs_a_look(self, node: str) -> bool:
        track, incident = self._fleet.tracks.get(node), self._open.get(node)
        if track is None or not self._is_of_interest(track):
            return False
        if incident and any(gpu.pending_since for gpu in incident.gpus):
            return True
        return self._last_judged.get(node) != _signature(self._fleet.judged(node))

    def _with_held_samples(self, transaction: Transaction, track: NodeTrack) -> NodeTrack:
        """A held sample ends a streak at once: its window, still open on the node, can no longer be candidate."""
        seen = self._fleet.seen(track.node)
        if seen is None or seen.heartbeat.last_closed_window is None:
            return track
        open_window, before = seen.heartbeat.last_closed_window + 1, track
        for uuid, gpu in track.gpus.items():
            now = sample_of(seen, track, uuid)
            if now and now.verdict is Verdict.HELD and gpu.streak and gpu.newest <= open_window:
                track = with_held_sample(track, uuid, open_window, tuple(now.reasons))
        if track is not before:
            self._keep(transaction, track)
        return track

    def _keep(self, transaction: Transaction, track: NodeTrack) -> None:
        windows.save_tracks(transaction.connection, [track])
        transaction.on_commit(lambda: self._fleet.tracks.__setitem__(track.node, track))

    # --- people -----------------------------------------------------------------------------------------------------

    async def acknowledge(self, click: Click) -> Clicked:
        return await self._click(click, Acknowledged(click.user))

    async def said_in_use(self, click: Click) -> Clicked:
        return await self._click(click, SaidInUse(click.user))

    async def refused(self, click: Click, why: str) -> None:
        """Records a click that was not allowed."""

        def record(transaction: Transaction) -> None:
            found = incidents.incident_of_token(transaction.connection, click.token)
            _record(transaction.connection, click, found[0] if found else None, f"refused: {why}")

        await self._store.write(record, urgent=True)

    async def _click(self, click: Click, event: Event) -> Clicked:
        return await self._store.write(lambda transaction: self._clicked(transaction, click, event), urgent=True)

    def _clicked(self, transaction: Transaction, click: Click, event: Event) -> Clicked:
        found = incidents.incident_of_token(transaction.connection, click.token)
        clicked = self._decided(transaction, found[0], event) if found else Clicked(Outcome.UNKNOWN_BUTTON)
        _record(transaction.connection, click, clicked.incident, clicked.outcome)
        return clicked

    def _decided(self, transaction: Transaction, incident: Incident, event: Event) -> Clicked:
        if incident.closed_at:
            self._send(transaction, incident, [ShowCard(at_once=True)])  # the old card on their screen is drawn anew
            return Clicked(Outcome.CLOSED, incident)
        after = self._step(transaction, incident, event)
        if after is incident or after is None:
            return Clicked(Outcome.ALREADY, incident)
        return Clicked(Outcome.DONE, after)

    # --- one step ---------------------------------------------------------------------------------------------------

    def _step(self, transaction: Transaction, before: Incident | None, event: Event) -> Incident | None:
        after, effects = step(before, event, clock.now())
        if after is None or after is before:
            return after
        saved = incidents.save(transaction.connection, before, after)
        transaction.on_commit(lambda: self._remember(saved))
        self._send(transaction, saved, effects)
        return saved

    def _remember(self, incident: Incident) -> None:
        if incident.closed_at:
            self._open.pop(incident.node, None)
        else:
            self._open[incident.node] = incident

    def _send(self, transaction: Transaction, incident: Incident, effects: Iterable[Effect]) -> None:
        now = clock.now()
        card = outbox.card_of(transaction.connection, incident.id)
        for effect in effects:
            key, shadow = secrets.token_hex(16), self._settings.shadow
            if isinstance(effect, ShowCard):
                not_before = self._card_time(card, effect, now)
                outbox.want_card(
                    transaction.connection, incident.id, incident.revision, key, not_before, shadow=shadow, now=now
                )
            elif card and card.ts:  # before the card is there, its thread has nothing to add
                outbox.add_line(
                    transaction.connection, incident.id, effect.key, effect.values, key, shadow=shadow, now=now
                )
        for call in self._on_outbox:
            transaction.on_commit(call)

    def _card_time(self, card: outbox.OutboxRow | None, effect: ShowCard, now: datetime) -> datetime:
        if card is None:
            return now + self._settings.gather
        if card.sent_at is None or card.last_error:
            return card.not_before
        return now if effect.at_once else max(now, card.sent_at + self._settings.edit_every)


def _signature(judged: Judged) -> object:
    """What of a judgement can move an incident; equal signatures need no second look."""
    return tuple(
        (uuid, facts.standing.presence, facts.standing.because, facts.standing.streak, facts.newest)
        for uuid, facts in judged.gpus.items()
    )


def _somebody_is_free(judged: Judged) -> bool:
    return any(facts.standing.presence is Presence.PRESENT for facts in judged.gpus.values())


def _record(connection: Connection, click: Click, incident: Incident | None, outcome: str) -> None:
    incident_id = incident.id if incident else None
    incidents.record_click(connection, clock.now(), click.team, click.user, click.action, incident_id, outcome)
