"""Free GPUs: one card for each node, from what its windows and its heartbeat say this moment."""

import asyncio

from msgspec.structs import replace

from bot.advance.openings import Openings
from bot.advance.steps import Steps
from bot.fleet import Fleet
from bot.incident import Incident, Judged, Kind
from bot.judge.candidate import sample_of
from bot.judge.track import NodeTrack, with_held_sample
from bot.judge.verdict import Presence
from bot.store import incidents, windows
from bot.store.writer import Store, Transaction
from wire.messages import Verdict

CARDS_AT_ONCE = 5  # 1 ms: with five thousand cards it takes a while, and clicks go in between


class Candidates:
    """Asked with every chunk of windows: without an open card and a long enough streak it reads nothing."""

    def __init__(self, store: Store, fleet: Fleet, steps: Steps, openings: Openings) -> None:
        self._store = store
        self._fleet = fleet
        self._steps = steps
        self._openings = openings
        self._last_judged: dict[str, object] = {}

    async def refresh(self, node: str) -> None:
        """Judges the node afresh, and writes only when something about it is different."""
        if self._needs_a_look(node):
            await self._store.write(lambda transaction: self.judge_in(transaction, node))

    async def refresh_open(self) -> None:
        """Judges again every node with an open incident: time alone makes a heartbeat old."""
        nodes = [node for kind, node in list(self._steps.open) if kind is Kind.CANDIDATE]
        for number, node in enumerate(nodes):
            await self.refresh(node)
            if number % CARDS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def judge_in(self, transaction: Transaction, node: str, track: NodeTrack | None = None) -> None:
        """The same inside a transaction; `track` is the node's track where this transaction has a newer one."""
        track = track or self._fleet.tracks.get(node)
        if track is None or not self._is_of_interest(track):
            return
        track = self._with_held_samples(transaction, track)
        judged = self._fleet.judged(node, track)
        transaction.on_commit(lambda: self._last_judged.__setitem__(node, _signature(judged)))
        if self._card_of(node) or _somebody_is_free(judged):
            before = incidents.open_of(transaction.connection, Kind.CANDIDATE, node)
            if before is None and _somebody_is_free(judged):
                judged = replace(judged, opening=self._openings.of(transaction, Kind.CANDIDATE, node, Kind.CANDIDATE))
            self._steps.apply(transaction, before, judged)

    def _card_of(self, node: str) -> Incident | None:
        return self._steps.open.get((Kind.CANDIDATE, node))

    def _is_of_interest(self, track: NodeTrack) -> bool:
        """Without an open card and without a long enough streak there is nothing to open and nothing to end."""
        return self._card_of(track.node) is not None or any(
            gpu.streak >= self._fleet.rule.windows for gpu in track.gpus.values()
        )

    def _needs_a_look(self, node: str) -> bool:
        track, incident = self._fleet.tracks.get(node), self._card_of(node)
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


def _signature(judged: Judged) -> object:
    """What of a judgement can move an incident; equal signatures need no second look."""
    return tuple(
        (uuid, facts.standing.presence, facts.standing.because, facts.standing.streak, facts.newest)
        for uuid, facts in judged.gpus.items()
    )


def _somebody_is_free(judged: Judged) -> bool:
    return any(facts.standing.presence is Presence.PRESENT for facts in judged.gpus.values())
