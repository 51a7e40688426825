"""May this GPU be called free now? Three candidate windows in a row, and fresh by the node's own heartbeat."""

import msgspec

from bot.judge.track import GpuTrack, NodeTrack
from bot.judge.verdict import Because, Presence, Standing
from wire.messages import AllocationState, GpuNow, Heartbeat, Verdict
from wire.reasons import Reason

_RECORDINGS = ("replay", "fixture")
_SHOWN_DETAIL = 120


class CandidateRule(msgspec.Struct, frozen=True):
    """The thresholds. Only in `mode: demo` windows may be shorter and readings recorded ones."""

    windows: int = 3
    shortest_window_seconds: float = 300.0
    believe_recordings: bool = False
    heartbeat_max_age_seconds: float = 60.0
    sample_max_age_seconds: float = 30.0


class SeenHeartbeat(msgspec.Struct, frozen=True):
    """A node's latest heartbeat with its age: since it was sent, on the bot's time since boot."""

    heartbeat: Heartbeat
    age_seconds: float


def judge(node: NodeTrack, gpu: GpuTrack, seen: SeenHeartbeat | None, rule: CandidateRule) -> Standing:
    """PRESENT: confirmed and free now. ABSENT: held, given away by a scheduler, or another boot. UNKNOWN: neither."""
    return _taken(node, gpu, seen) or _unconfirmed(node, gpu, rule) or _stale(node, gpu, seen, rule) or _confirmed(gpu)


def sample_of(seen: SeenHeartbeat | None, node: NodeTrack, uuid: str) -> GpuNow | None:
    """The GPU's latest sample in the heartbeat, None where the heartbeat is of another boot or does not tell."""
    if seen is None or seen.heartbeat.boot_id != node.boot_id:
        return None
    return next((now for now in seen.heartbeat.gpus if now.uuid == uuid), None)


def _taken(node: NodeTrack, gpu: GpuTrack, seen: SeenHeartbeat | None) -> Standing | None:
    if seen and seen.heartbeat.boot_id != node.boot_id:
        return _standing(Presence.ABSENT, Because.NEW_BOOT, gpu)
    now = sample_of(seen, node, gpu.uuid)
    if now and now.verdict is Verdict.HELD:
        return _standing(Presence.ABSENT, Because.SAMPLE_HELD, gpu, reasons=tuple(now.reasons))
    if gpu.verdict is Verdict.HELD:
        return _standing(Presence.ABSENT, Because.WINDOW_HELD, gpu, reasons=gpu.reasons)
    if now and now.allocation and now.allocation.state is AllocationState.ALLOCATED:
        return _standing(Presence.ABSENT, Because.ALLOCATED, gpu, now.allocation.detail[:_SHOWN_DETAIL])
    return None


def _unconfirmed(node: NodeTrack, gpu: GpuTrack, rule: CandidateRule) -> Standing | None:
    if node.window_seconds < rule.shortest_window_seconds:
        return _standing(Presence.UNKNOWN, Because.WINDOW_TOO_SHORT, gpu, f"{node.window_seconds:g} s")
    if node.collector in _RECORDINGS and not rule.believe_recordings:
        return _standing(Presence.UNKNOWN, Because.RECORDING, gpu, node.collector)
    if gpu.streak == 0:
        return _standing(Presence.UNKNOWN, Because.WINDOW_NOT_JUDGED, gpu, reasons=gpu.reasons)
    if gpu.streak < rule.windows:
        return _standing(Presence.UNKNOWN, Because.STREAK_TOO_SHORT, gpu, f"{gpu.streak} of {rule.windows}")
    return None


def _stale(node: NodeTrack, gpu: GpuTrack, seen: SeenHeartbeat | None, rule: CandidateRule) -> Standing | None:
    if seen is None:
        return _standing(Presence.UNKNOWN, Because.NO_HEARTBEAT, gpu)
    if not seen.age_seconds <= rule.heartbeat_max_age_seconds:
        return _standing(Presence.UNKNOWN, Because.HEARTBEAT_OLD, gpu, f"{seen.age_seconds:.0f} s")
    if seen.heartbeat.spool_epoch != node.spool_epoch:
        return _standing(Presence.UNKNOWN, Because.OTHER_SPOOL, gpu)
    if seen.heartbeat.last_closed_window != gpu.newest or _is_of_another_source(seen.heartbeat, node):
        return _standing(Presence.UNKNOWN, Because.WINDOW_PENDING, gpu)
    return _stale_sample(node, gpu, seen, rule)


def _is_of_another_source(heartbeat: Heartbeat, node: NodeTrack) -> bool:
    """An agent that was started anew with another config: what it samples now says nothing of the windows of before."""
    return heartbeat.collector not in ("", node.collector) or heartbeat.window_seconds != node.window_seconds


def _stale_sample(node: NodeTrack, gpu: GpuTrack, seen: SeenHeartbeat, rule: CandidateRule) -> Standing | None:
    now = sample_of(seen, node, gpu.uuid)
    if now is None:
        return _standing(Presence.UNKNOWN, Because.GPU_NOT_REPORTED, gpu)
    if not 0 <= now.age_seconds <= rule.sample_max_age_seconds:
        return _standing(Presence.UNKNOWN, Because.SAMPLE_OLD, gpu, f"{now.age_seconds:.0f} s")
    if now.verdict is not Verdict.CANDIDATE:
        return _standing(Presence.UNKNOWN, Because.SAMPLE_NOT_CANDIDATE, gpu, reasons=tuple(now.reasons))
    if now.allocation and now.allocation.state is not AllocationState.FREE:
        return _standing(Presence.UNKNOWN, Because.ALLOCATION_UNREADABLE, gpu, now.allocation.detail[:_SHOWN_DETAIL])
    return None


def _confirmed(gpu: GpuTrack) -> Standing:
    return _standing(Presence.PRESENT, Because.CONFIRMED, gpu, f"{gpu.streak}")


def _standing(
    presence: Presence, because: Because, gpu: GpuTrack, detail: str = "", reasons: tuple[Reason, ...] = ()
) -> Standing:
    return Standing(presence, because, gpu.streak, detail, reasons)
