"""Window numbers of one node within one boot: which were candidate, in whatever order they arrive."""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from bot.judge.hours import Hour, alone, hour_of, summed
from wire.messages import GpuWindow, Observation, Process, Verdict
from wire.reasons import Reason, ReasonCode

HORIZON_WINDOWS = 64  # later than this behind the newest, a window is recorded and changes no judgement
KEPT_EVIDENCE = 3
KEPT_BROKEN = 8
KEPT_ERRORS = 3
_NOT_BROKEN = frozenset({ReasonCode.GPU_MISSING, ReasonCode.RELEASED})


class Evidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one candidate window showed. None means not read."""

    number: int
    closed_at: datetime
    utilization_max_percent: int | None
    memory_max_bytes: int | None
    processes: int


class LastHeld(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who was last seen on the GPU, and when that window closed. `number` is -1 for a window of an earlier boot."""

    number: int
    closed_at: datetime
    process: Process | None = None


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Equal verdicts of one GPU in consecutive windows, in the order they arrived: for the record, not for judging."""

    boot_id: str
    verdict: Verdict
    first: int
    last: int
    started_at: datetime
    ended_at: datetime


class GpuTrack(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One GPU in one boot.

    `candidate_runs` are the window numbers reported candidate and never otherwise, as inclusive ranges in ascending
    order; `other_runs` those reported otherwise. `newest` is the highest number heard of; `verdict` and
    `reasons` are that window's. `evidence` holds the newest candidate windows, oldest first.
    """

    uuid: str
    index: int
    model: str | None
    newest: int
    verdict: Verdict
    reasons: tuple[Reason, ...]
    newest_closed_at: datetime
    candidate_runs: tuple[tuple[int, int], ...] = ()
    other_runs: tuple[tuple[int, int], ...] = ()
    evidence: tuple[Evidence, ...] = ()
    last_held: LastHeld | None = None
    run: Run | None = None
    hour: Hour | None = None

    @property
    def streak(self) -> int:
        """Candidate windows in a row that end with the newest window; 0 when that one is not candidate."""
        if not self.candidate_runs or self.candidate_runs[-1][1] != self.newest:
            return 0
        first, last = self.candidate_runs[-1]
        return last - first + 1


class NodeTrack(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One node: its current boot and spool, and its GPUs by UUID. `boot_first_seq` orders boots within one spool.

    `newest` is the highest window number heard of; `broken` are the latest in which reading failed and nothing could
    be told of any GPU, and `errors` why, in the newest of them.
    """

    node: str
    boot_id: str
    spool_epoch: str
    last_seq: int
    boot_first_seq: int
    window_seconds: float
    collector: str
    gpus: Mapping[str, GpuTrack]
    newest: int = -1
    broken: tuple[int, ...] = ()
    errors: tuple[Reason, ...] = ()


def observed(track: NodeTrack | None, observation: Observation) -> NodeTrack:
    """The node's track after a new observation (duplicates by seq are the caller's to drop)."""
    if track is None:
        return _grown(_begun(observation), observation)
    if _is_of_an_older_boot(track, observation):
        return track
    if _life(track) != _life(observation):
        return _grown(_begun(observation, track), observation)
    return _grown(track, observation)


def with_held_sample(track: NodeTrack, uuid: str, number: int, reasons: tuple[Reason, ...]) -> NodeTrack:
    """The track after one held sample in the still open window `number`: that window can no longer be candidate."""
    gpu = _placed(track.gpus[uuid], number, is_candidate=False)
    if number == gpu.newest:
        gpu = replace(gpu, verdict=Verdict.HELD, reasons=reasons)
    return replace(track, gpus={**track.gpus, uuid: gpu})


def _is_of_an_older_boot(track: NodeTrack, observation: Observation) -> bool:
    return (
        observation.boot_id != track.boot_id
        and observation.spool_epoch == track.spool_epoch
        and observation.seq < track.boot_first_seq
    )


def _life(one: NodeTrack | Observation) -> tuple[str, float, str]:
    """Windows of another boot, another length or another source do not continue a streak."""
    return one.boot_id, one.window_seconds, one.collector


def _begun(observation: Observation, before: NodeTrack | None = None) -> NodeTrack:
    earlier = before.gpus if before else {}
    gpus = {gpu.uuid: _new_gpu(gpu, observation, earlier.get(gpu.uuid)) for gpu in observation.gpus}
    return NodeTrack(
        node=observation.node,
        boot_id=observation.boot_id,
        spool_epoch=observation.spool_epoch,
        last_seq=observation.seq,
        boot_first_seq=observation.seq,
        window_seconds=observation.window_seconds,
        collector=observation.collector,
        gpus=gpus,
    )


def _new_gpu(gpu: GpuWindow, observation: Observation, before: GpuTrack | None) -> GpuTrack:
    return GpuTrack(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        newest=observation.window_number,
        verdict=gpu.verdict,
        reasons=tuple(gpu.reasons),
        newest_closed_at=observation.closed_at,
        last_held=_of_earlier_boot(before.last_held) if before else None,
        run=before.run if before else None,
        hour=before.hour if before else None,
    )


def _grown(track: NodeTrack, observation: Observation) -> NodeTrack:
    gpus, hour = dict(track.gpus), hour_of(observation)
    for gpu in observation.gpus:
        known = gpus.get(gpu.uuid) or _new_gpu(gpu, observation, None)
        if observation.window_number > known.newest:
            gpus[gpu.uuid] = _with_newer_window(known, gpu, observation, hour)
        else:
            gpus[gpu.uuid] = _recorded(_with_window(known, gpu, observation), gpu, observation, hour)
    if observation.errors or track.broken:
        track = _with_broken(track, observation)
    newer = observation.spool_epoch != track.spool_epoch or observation.seq > track.last_seq
    return replace(
        track,
        gpus=gpus,
        newest=max(track.newest, observation.window_number),
        spool_epoch=observation.spool_epoch if newer else track.spool_epoch,
        last_seq=observation.seq if newer else track.last_seq,
        boot_first_seq=_first_seq(track, observation),
    )


def _with_broken(track: NodeTrack, observation: Observation) -> NodeTrack:
    number = observation.window_number
    newest = max(track.newest, number)
    numbers = {*track.broken, number} if is_broken(observation) else set(track.broken)
    broken = tuple(sorted(one for one in numbers if one > newest - KEPT_BROKEN))
    is_newest = number in broken and number == broken[-1]
    errors = tuple(observation.errors[:KEPT_ERRORS]) if is_newest else track.errors
    return replace(track, broken=broken, errors=errors if broken else ())


def is_broken(observation: Observation) -> bool:
    """Reading failed, and nothing could be told of any GPU.

    A GPU that is gone is another finding; that a person wants the agent to keep off the driver is none.
    """
    failed = any(error.code not in _NOT_BROKEN for error in observation.errors)
    return failed and all(gpu.verdict is Verdict.UNKNOWN for gpu in observation.gpus)


def _first_seq(track: NodeTrack, observation: Observation) -> int:
    if observation.spool_epoch != track.spool_epoch:
        return observation.seq
    return min(track.boot_first_seq, observation.seq)


def _with_newer_window(gpu: GpuTrack, window: GpuWindow, observation: Observation, hour: datetime) -> GpuTrack:
    """What `_with_window` and `_recorded` come to when nothing newer is known: nearly every window, so in one step."""
    number, is_candidate = observation.window_number, window.verdict is Verdict.CANDIDATE
    candidate_runs, other_runs, evidence = gpu.candidate_runs, gpu.other_runs, gpu.evidence
    if is_candidate:
        candidate_runs = _with_number(candidate_runs, number, number)
        evidence = (*evidence[1 - KEPT_EVIDENCE :], _seen(window, observation))
    else:
        other_runs = _with_number(other_runs, number, number)
    return GpuTrack(
        uuid=gpu.uuid,
        index=window.index,
        model=window.model,
        newest=number,
        verdict=window.verdict,
        reasons=tuple(window.reasons),
        newest_closed_at=observation.closed_at,
        candidate_runs=candidate_runs,
        other_runs=other_runs,
        evidence=evidence,
        last_held=_held(window, observation) if window.verdict is Verdict.HELD else gpu.last_held,
        run=_extended(gpu.run, window, observation),
        hour=summed(gpu.hour, alone(window, observation, hour)),
    )


def _with_window(gpu: GpuTrack, window: GpuWindow, observation: Observation) -> GpuTrack:
    number = observation.window_number
    if number <= gpu.newest - HORIZON_WINDOWS:
        return gpu
    gpu = _with_newest(gpu, window, observation)
    if window.verdict is Verdict.CANDIDATE:
        return _placed(_with_evidence(gpu, window, observation), number, is_candidate=True)
    if window.verdict is Verdict.HELD:
        gpu = replace(gpu, last_held=_later(gpu.last_held, _held(window, observation)))
    return _placed(gpu, number, is_candidate=False)


def _extended(run: Run | None, window: GpuWindow, observation: Observation) -> Run:
    number, boot_id = observation.window_number, observation.boot_id
    if run and run.boot_id == boot_id and number <= run.last:
        return run
    if run and (run.boot_id, run.verdict, run.last + 1) == (boot_id, window.verdict, number):
        return replace(run, last=number, ended_at=observation.closed_at)
    return Run(boot_id, window.verdict, number, number, observation.started_at, observation.closed_at)


def _recorded(gpu: GpuTrack, window: GpuWindow, observation: Observation, hour: datetime) -> GpuTrack:
    run = _extended(gpu.run, window, observation)
    return replace(gpu, run=run, hour=summed(gpu.hour, alone(window, observation, hour)))


# Two reports of one window number can only come from a broken or doubled agent: the one that frees less wins.
_RANK = {Verdict.CANDIDATE: 0, Verdict.UNKNOWN: 1, Verdict.HELD: 2}


def _with_newest(gpu: GpuTrack, window: GpuWindow, observation: Observation) -> GpuTrack:
    number = observation.window_number
    if number < gpu.newest or (number == gpu.newest and _RANK[window.verdict] < _RANK[gpu.verdict]):
        return gpu
    return replace(
        gpu,
        index=window.index,
        model=window.model,
        newest=number,
        verdict=window.verdict,
        reasons=tuple(window.reasons),
        newest_closed_at=observation.closed_at,
    )


def _with_evidence(gpu: GpuTrack, window: GpuWindow, observation: Observation) -> GpuTrack:
    seen = _seen(window, observation)
    if not gpu.evidence or gpu.evidence[-1].number < seen.number:
        return replace(gpu, evidence=(*gpu.evidence[1 - KEPT_EVIDENCE :], seen))
    by_number = {evidence.number: evidence for evidence in gpu.evidence}
    by_number.setdefault(seen.number, seen)
    newest = sorted(by_number.values(), key=lambda evidence: evidence.number)[-KEPT_EVIDENCE:]
    return replace(gpu, evidence=tuple(newest))


def _seen(window: GpuWindow, observation: Observation) -> Evidence:
    return Evidence(
        number=observation.window_number,
        closed_at=observation.closed_at,
        utilization_max_percent=window.utilization_max_percent,
        memory_max_bytes=window.memory_max_bytes,
        processes=len(window.processes) + window.processes_cut,
    )


def _held(window: GpuWindow, observation: Observation) -> LastHeld:
    process = window.processes[0] if window.processes else None
    return LastHeld(number=observation.window_number, closed_at=observation.closed_at, process=process)


def _later(one: LastHeld | None, other: LastHeld) -> LastHeld:
    return one if one and one.number >= other.number else other


def _of_earlier_boot(held: LastHeld | None) -> LastHeld | None:
    return replace(held, number=-1) if held else None


def _placed(gpu: GpuTrack, number: int, *, is_candidate: bool) -> GpuTrack:
    newest = max(gpu.newest, number)
    if is_candidate:
        if _holds(gpu.other_runs, number):
            return gpu
        return replace(gpu, newest=newest, candidate_runs=_with_number(gpu.candidate_runs, number, newest))
    return replace(
        gpu,
        newest=newest,
        candidate_runs=_without_number(gpu.candidate_runs, number),
        other_runs=_with_number(gpu.other_runs, number, newest),
        evidence=tuple(evidence for evidence in gpu.evidence if evidence.number != number),
    )


Runs = tuple[tuple[int, int], ...]


def _holds(runs: Runs, number: int) -> bool:
    if not runs or number > runs[-1][1]:  # the usual case: a newer window
        return False
    return any(begin <= number <= end for begin, end in runs)


def _with_number(runs: Runs, number: int, newest: int) -> Runs:
    """The ranges with one number more, merged where they touch; ranges wholly behind the horizon are forgotten."""
    if runs and number == runs[-1][1] + 1:  # the usual case: the next window
        return (*_recent(runs[:-1], newest), (runs[-1][0], number))
    first = last = number
    apart = []
    for begin, end in runs:
        if end < number - 1 or begin > number + 1:
            apart.append((begin, end))
        else:
            first, last = min(first, begin), max(last, end)
    return _recent(tuple(sorted([*apart, (first, last)])), newest)


def _recent(runs: Runs, newest: int) -> Runs:
    if not runs or runs[0][1] > newest - HORIZON_WINDOWS:
        return runs
    return tuple(run for run in runs if run[1] > newest - HORIZON_WINDOWS)


def _without_number(runs: Runs, number: int) -> Runs:
    if not _holds(runs, number):
        return runs
    parts = []
    for begin, end in runs:
        if begin <= number <= end:
            parts += [part for part in ((begin, number - 1), (number + 1, end)) if part[0] <= part[1]]
        else:
            parts.append((begin, end))
    return tuple(parts)
