"""What the bot knows of every node right now: committed tracks, and the latest heartbeat in memory."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from bot import clock
from bot.incident import Finding, GpuFacts, Judged, Kind
from bot.judge.candidate import CandidateRule, SeenHeartbeat, judge
from bot.judge.track import GpuTrack, NodeTrack
from bot.judge.verdict import Because, Presence, Standing
from wire.messages import Heartbeat


class _Received(msgspec.Struct, frozen=True):
    heartbeat: Heartbeat
    monotonic_seconds: float


class Fleet:
    """Tracks are set by the writer thread after its commit; heartbeats by the event loop. Values are frozen."""

    def __init__(self, rule: CandidateRule, tracks: Mapping[str, NodeTrack] | None = None) -> None:
        self.rule = rule
        self.tracks: dict[str, NodeTrack] = dict(tracks or {})
        self._heartbeats: dict[str, _Received] = {}
        # What the bot cannot see of a node, by open incidents; set by the writer thread after its commit.
        self.hidden: dict[str, frozenset[Kind]] = {}

    def heard(self, heartbeat: Heartbeat) -> None:
        self._heartbeats[heartbeat.node] = _Received(heartbeat, clock.monotonic_seconds())

    def seen(self, node: str) -> SeenHeartbeat | None:
        """The node's latest heartbeat and its age; None when none came since this bot started."""
        received = self._heartbeats.get(node)
        if received is None:
            return None
        return SeenHeartbeat(received.heartbeat, clock.monotonic_seconds() - received.monotonic_seconds)

    def note_blind(self, node: str, kind: Kind, *, is_blind: bool) -> None:
        before = self.hidden.get(node, frozenset())
        after = before | {kind} if is_blind else before - {kind}
        if after:
            self.hidden[node] = after
        else:
            self.hidden.pop(node, None)

    def nodes(self) -> list[str]:
        return sorted({*self.tracks, *self._heartbeats})

    def findings(self) -> Iterable[Finding]:
        return []

    def judged(self, node: str, track: NodeTrack | None = None) -> Judged:
        """Every GPU of the node as it stands this moment, by its committed track or by the one that is given."""
        track = track or self.tracks.get(node)
        if track is None:
            return Judged(node, {}, self.rule.windows)
        seen = self.seen(node)
        is_blind = node in self.hidden
        facts = {uuid: self._facts(track, gpu, seen, is_blind) for uuid, gpu in track.gpus.items()}
        return Judged(node, facts, self.rule.windows)

    def _facts(self, track: NodeTrack, gpu: GpuTrack, seen: SeenHeartbeat | None, is_blind: bool) -> GpuFacts:
        return GpuFacts(
            uuid=gpu.uuid,
            index=gpu.index,
            model=gpu.model,
            standing=_unless_blind(judge(track, gpu, seen, self.rule), is_blind),
            # By the count of windows, so that a label of a clock that was set does not make it older.
            since=gpu.newest_closed_at - timedelta(seconds=track.window_seconds * max(gpu.streak, 1)),
            window_seconds=track.window_seconds,
            newest=gpu.newest,
            evidence=gpu.evidence,
            last_held=gpu.last_held,
        )


def _unless_blind(standing: Standing, is_blind: bool) -> Standing:
    """What cannot be seen well is never called free; that it is in use may be said."""
    if not is_blind or standing.presence is not Presence.PRESENT:
        return standing
    return replace(standing, presence=Presence.UNKNOWN, because=Because.BLIND)
