"""A candidate card: one node, one idle episode, GPU by GPU."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from bot.incident.kinds import Kind
from bot.incident.model import CardGpu, CardState, GpuChange, GpuFacts, Incident, Judged, ShowCard, Step, ThreadLine
from bot.incident.speech import changed, opened
from bot.judge.track import GpuTrack, NodeTrack
from bot.judge.verdict import Because, Presence, Standing

# A closed window may take as long to arrive as a heartbeat may be old; a bot that just started waits as long for one.
PENDING_GRACE = timedelta(seconds=60)
_ON_ITS_WAY = (Because.WINDOW_PENDING, Because.NO_HEARTBEAT)
_GIVEN = (Because.CLAIMED, Because.ALLOCATED)  # by a person or a scheduler: that is not yet used


def gpu_facts(track: NodeTrack, gpu: GpuTrack, standing: Standing) -> GpuFacts:
    return GpuFacts(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        standing=standing,
        # By the count of windows, so that a label of a clock that was set does not make it older.
        since=gpu.newest_closed_at - timedelta(seconds=track.window_seconds * max(gpu.streak, 1)),
        window_seconds=track.window_seconds,
        newest=gpu.newest,
        evidence=gpu.evidence,
        last_held=gpu.last_held,
    )


def judged(incident: Incident | None, event: Judged, now: datetime) -> Step:
    if incident is None:
        return _opened(event, now)
    on_card = {gpu.uuid: gpu for gpu in incident.gpus}
    moved = [_moved(gpu, event.gpus.get(gpu.uuid), event.windows, now) for gpu in incident.gpus]
    joined = [_joined(facts, now) for uuid, facts in event.gpus.items() if uuid not in on_card and _is_free(facts)]
    gpus = tuple(sorted([*moved, *joined], key=lambda gpu: gpu.index))
    if gpus == incident.gpus:
        return incident, ()
    return _changed(replace(incident, gpus=gpus), on_card, now)


def _opened(event: Judged, now: datetime) -> Step:
    gpus = tuple(_joined(facts, now) for facts in event.gpus.values() if _is_free(facts))
    if not gpus:
        return None, ()
    gpus = tuple(sorted(gpus, key=lambda gpu: gpu.index))
    new = Incident(id=0, kind=Kind.CANDIDATE, subject=event.node, opened_at=now, gpus=gpus)
    return opened(new, event.opening, now, ShowCard())


def _changed(incident: Incident, before: Mapping[str, CardGpu], now: datetime) -> Step:
    moved = [gpu for gpu in incident.gpus if _state_of(before, gpu) is not gpu.state]
    if not moved:  # only what the card does not show moved
        return incident, ()
    if all(gpu.state is CardState.LEFT for gpu in incident.gpus):
        incident = replace(incident, closed_at=now)
    return changed(incident, ShowCard(), _line(moved))


def _state_of(before: Mapping[str, CardGpu], gpu: CardGpu) -> CardState | None:
    return before[gpu.uuid].state if gpu.uuid in before else None


def _line(moved: Sequence[CardGpu]) -> ThreadLine:
    """One for the step, also where a whole node is taken: Slack takes about one post a second in a channel."""
    alike: dict[tuple[CardState, Because, str], list[int]] = {}
    for gpu in moved:
        alike.setdefault((gpu.state, gpu.because, gpu.detail), []).append(gpu.index)
    changes = [GpuChange(state, tuple(indexes), why, detail) for (state, why, detail), indexes in alike.items()]
    return ThreadLine(f"thread.{changes[0].state}", {"changes": msgspec.json.encode(changes).decode()})


def _is_free(facts: GpuFacts) -> bool:
    return facts.standing.presence is Presence.PRESENT


def _joined(facts: GpuFacts, now: datetime) -> CardGpu:
    return CardGpu(
        uuid=facts.uuid,
        index=facts.index,
        model=facts.model,
        state=CardState.CONFIRMED,
        since=facts.since,
        changed_at=now,
        window_seconds=facts.window_seconds,
        streak=facts.standing.streak,
        judged_up_to=facts.newest,
        evidence=facts.evidence,
        last_held=facts.last_held,
    )


def _moved(gpu: CardGpu, facts: GpuFacts | None, windows: int, now: datetime) -> CardGpu:
    if facts is None:
        return _not_judged(gpu, Because.GPU_NOT_REPORTED, "", now)
    presence = facts.standing.presence
    if presence is Presence.PRESENT:
        return _found_free(gpu, facts, windows, now)
    if presence is Presence.ABSENT:
        return _left(gpu, facts.standing, now)
    return _not_judged(gpu, facts.standing.because, facts.standing.detail, now)


def _found_free(gpu: CardGpu, facts: GpuFacts, windows: int, now: datetime) -> CardGpu:
    if gpu.state is CardState.DISPUTED:
        return gpu
    if gpu.state is CardState.LEFT:
        return _joined(facts, now)
    if gpu.state is CardState.NOT_JUDGED and facts.newest - gpu.judged_up_to < windows:
        return gpu  # three new windows in a row, not those from before the gap
    if gpu.state is CardState.NOT_JUDGED:
        return _joined(facts, now)
    return replace(gpu, streak=facts.standing.streak, judged_up_to=facts.newest, pending_since=None)


def _left(gpu: CardGpu, standing: Standing, now: datetime) -> CardGpu:
    if gpu.state is CardState.LEFT or (gpu.state is CardState.DISPUTED and standing.because in _GIVEN):
        return gpu
    detail = standing.reasons[0].code if standing.reasons else standing.detail
    return replace(gpu, state=CardState.LEFT, changed_at=now, because=standing.because, detail=str(detail))


def _not_judged(gpu: CardGpu, because: Because, detail: str, now: datetime) -> CardGpu:
    if gpu.state is not CardState.CONFIRMED:
        return gpu
    if because in _ON_ITS_WAY and gpu.pending_since is None:
        return replace(gpu, pending_since=now)
    if because in _ON_ITS_WAY and gpu.pending_since and abs(now - gpu.pending_since) < PENDING_GRACE:
        return gpu
    return replace(gpu, state=CardState.NOT_JUDGED, changed_at=now, because=because, detail=detail, pending_since=None)
