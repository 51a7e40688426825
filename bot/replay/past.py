"""Recorded windows and ticks, one after the other, through the judges and the steps of incidents."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from bot.incident import Incident, Judged, Kind, gpu_facts, step
from bot.incident.model import Event
from bot.incident.runner import finding_of, opened_of, subject_of
from bot.judge.candidate import CandidateRule, judge
from bot.judge.runner import conclude
from bot.judge.stall import StallSettings
from bot.judge.track import NodeTrack, observed
from bot.judge.verdict import Because, Presence, Standing
from wire.messages import Observation
from wire.ticks import Tick

Key = tuple[Kind, str]


class Change(msgspec.Struct, frozen=True):
    """An incident opened, turned into something else, or closed. `number` tells one from the next on its subject."""

    at: datetime
    number: int
    incident: Incident


class Past:
    """What silence, people and schedulers did is not in the record of windows, and so not judged again."""

    def __init__(self, rule: CandidateRule, settings: StallSettings) -> None:
        self._rule = rule
        self._settings = settings
        self._tracks: dict[str, NodeTrack] = {}
        self._ticks: dict[str, Tick] = {}
        self._open: dict[Key, tuple[int, Incident]] = {}
        self._opened = 0

    def take(self, observation: Observation) -> Iterator[Change]:
        for tick in observation.ticks:
            yield from self.tick(observation.node, tick)
        track = observed(self._tracks.get(observation.node), observation)
        self._tracks[observation.node] = track
        facts = {
            uuid: gpu_facts(track, gpu, _as_fresh(judge(track, gpu, None, self._rule)))
            for uuid, gpu in track.gpus.items()
        }
        judged = Judged(track.node, facts, self._rule.windows)
        yield from self._step((Kind.CANDIDATE, track.node), judged, observation.closed_at)

    def tick(self, node: str, tick: Tick) -> Iterator[Change]:
        subject = subject_of(node, tick.runner)
        key = (Kind.RUNNER, subject)
        incident = self._open[key][1] if key in self._open else None
        concluded = conclude(self._ticks.get(subject), tick, opened_of(incident), self._settings)
        self._ticks[subject] = tick
        finding = finding_of(node, concluded, incident.finding if incident else None)
        if finding is not None:
            yield from self._step(key, finding, tick.taken_at)

    def _step(self, key: Key, event: Event, at: datetime) -> Iterator[Change]:
        number, before = self._open.get(key, (self._opened + 1, None))
        after, _ = step(before, event, at)
        if after is None or after is before:
            return
        self._opened = max(self._opened, number)
        self._open[key] = (number, after)
        if after.closed_at:
            del self._open[key]
        if before is None or after.closed_at or _shown(before) != _shown(after):
            yield Change(at, number, after)


def _as_fresh(standing: Standing) -> Standing:
    """Heartbeats are not recorded: the newest window counts as the newest sample."""
    if standing.because is not Because.NO_HEARTBEAT:
        return standing
    return msgspec.structs.replace(standing, presence=Presence.PRESENT, because=Because.CONFIRMED)


def _shown(incident: Incident) -> object:
    """What makes a change worth a line."""
    return incident.what, tuple((gpu.uuid, gpu.state) for gpu in incident.gpus)
