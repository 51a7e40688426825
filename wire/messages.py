"""Reports of a node, as values and as bytes: unknown fields are ignored, unknown enum members decode as `unknown`."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec
from msgspec.structs import replace

from wire import subjects
from wire.reasons import Reason
from wire.remedies import NodeRemedies
from wire.ticks import MOST_RUNNERS, Tick, Witness
from wire.values import Count, Identity, Instant, Seconds, Sentence, Word

VERSION = 1
MAX_MESSAGE_BYTES = 60 * 1024
LONGEST_WHY = 200  # characters: a refusal can quote what it refuses
WindowSeconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]
Watts = Annotated[float, msgspec.Meta(ge=0, le=1e6)]

# gc=False below: these values can hold no cycle, and at 2,000 windows a second tracking them costs a third of the time.
KEPT_PROCESSES = 8  # of one GPU, when a message would be too large otherwise


class Verdict(StrEnum):
    """What one sample or one window says of one GPU."""

    CANDIDATE = "candidate"
    HELD = "held"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> "Verdict":
        return cls.UNKNOWN


class ProcessKind(StrEnum):
    COMPUTE = "compute"
    GRAPHICS = "graphics"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> "ProcessKind":
        return cls.UNKNOWN


class Process(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A process that the driver lists for a GPU. Everything but the PID is explanation; None means not read.

    `started`: its start in clock ticks since boot, which no clock that is set can change: with the PID it is its
    identity, and orders name it. "" means not read.
    `container` is runtime:id, `pod` namespace/name or the pod's uid, `job` a Slurm job: None also where it has none.
    """

    pid: Count
    kind: ProcessKind = ProcessKind.COMPUTE
    used_memory_bytes: Count | None = None
    started_at: Instant | None = None
    user: str | None = None
    command: str | None = None
    container: str | None = None
    pod: str | None = None
    job: str | None = None
    started: Word = ""


class AllocationState(StrEnum):
    """What the node's scheduler says of one GPU. A word that this version does not know allows nothing."""

    ALLOCATED = "allocated"
    FREE = "free"
    UNREADABLE = "unreadable"

    @classmethod
    def _missing_(cls, value: object) -> "AllocationState":
        return cls.UNREADABLE


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Whether kubelet or Slurm gave this GPU away. `detail`: to whom, or why it cannot be read (foreign: escape it)."""

    state: AllocationState
    detail: str = ""


class GpuWindow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One GPU over one window. None for a maximum means that no sample could read it; it never means 0.

    `allocation` None: nothing that allocates GPUs runs on the node. `power_mean_watts`: of the samples that read it.
    `only_canary_busy`: the GPU was busy only in samples that overlap a test request of our own to its runner.
    """

    index: Count
    uuid: Identity
    verdict: Verdict
    reasons: list[Reason]
    samples: Count
    expected_samples: Count
    model: str | None = None
    utilization_max_percent: Count | None = None
    memory_max_bytes: Count | None = None
    processes: list[Process] = []
    processes_cut: Count = 0
    power_mean_watts: Watts | None = None
    allocation: Allocation | None = None
    only_canary_busy: bool = False


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """All GPUs of one node over one window; published also when everything failed.

    `window_number` counts windows of `window_seconds` on the node's CLOCK_BOOTTIME within one boot; `started_at` and
    `closed_at` are labels by the node's wall clock. `errors` holds each distinct sample error of the window once.
    `ticks` are all ticks of all runners that were taken in the window, in order.
    """

    version: Count
    node: Identity
    boot_id: Identity
    spool_epoch: Identity
    seq: Count
    window_number: Count
    window_seconds: WindowSeconds
    started_at: Instant
    closed_at: Instant
    agent_version: str
    collector: str
    gpus: list[GpuWindow]
    errors: list[Reason] = []
    ticks: list[Tick] = []


class GpuNow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The latest sample of one GPU. `age_seconds` is on the node's monotonic clock; None processes: unreadable.

    `processes_cut`: so many more are there, for which the message had no room. `allocation` None: nothing that
    allocates GPUs runs on the node. `unlisted`: why there may be processes that no list here names, "" where
    all are listed (foreign: escape it).
    """

    index: Count
    uuid: Identity
    verdict: Verdict
    reasons: list[Reason]
    age_seconds: Seconds
    processes: list[Process] | None = None
    allocation: Allocation | None = None
    processes_cut: Count = 0
    unlisted: Sentence = ""


class Heartbeat(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a node says every 30 s and at every change. Complete by itself: only the latest matters.

    `last_seq` is the highest seq the spool has given out (0 for none); `last_closed_window` is None until one closed;
    it counts those, too, that nobody watched, as on a node that slept.
    `errors` are those of the latest sample: when it is not empty, `gpus` are unknown. `runners` holds the latest tick
    of every runner; one that was not read yet is not there. `order_key` names the newest key whose orders
    the node takes, "" where it has none. `uptime_seconds` is the node's time since boot when it was sent: how long it
    was on its way shows beside the others; None: an older agent. `collector` is where the latest sample comes from; "":
    an older agent.
    """

    version: Count
    node: Identity
    boot_id: Identity
    spool_epoch: Identity
    last_seq: Count
    sent_at: Instant
    agent_version: str
    window_seconds: WindowSeconds
    gpus: list[GpuNow]
    last_closed_window: Count | None = None
    errors: list[Reason] = []
    runners: Annotated[list[Tick], msgspec.Meta(max_length=MOST_RUNNERS)] = []
    order_key: Annotated[str, msgspec.Meta(max_length=64)] = ""
    remedies: NodeRemedies | None = None
    uptime_seconds: Seconds | None = None
    collector: Word = ""


class BadMessageError(ValueError):
    """A report that cannot be used; the text says why and is kept in the table `rejected`."""


def encode(message: Observation | Heartbeat) -> bytes:
    return msgspec.json.encode(message)


_decode_observation = msgspec.json.Decoder(Observation).decode
_decode_heartbeat = msgspec.json.Decoder(Heartbeat).decode


def decode_observation(subject: str, body: bytes) -> Observation:
    """Raises BadMessageError for bytes that are no observation or whose node is not the subject's."""
    return _checked(subject, _decode(_decode_observation, body))


def decode_heartbeat(subject: str, body: bytes) -> Heartbeat:
    """Raises BadMessageError for bytes that are no heartbeat or whose node is not the subject's."""
    return _checked(subject, _decode(_decode_heartbeat, body))


Report = TypeVar("Report", Observation, Heartbeat)


def _decode(decode: Callable[[bytes], Report], body: bytes) -> Report:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessageError(f"not a report of version {VERSION}: {str(error)[:LONGEST_WHY]}") from error


def _checked(subject: str, report: Report) -> Report:
    if not subjects.is_node_name(report.node) or report.node != subjects.node_of(subject):
        raise BadMessageError(f"the report names node {report.node[:80]!r}, its subject is {subject[:80]!r}")
    label = report.closed_at if isinstance(report, Observation) else report.sent_at
    if not 1970 <= label.year <= 2200:  # a dead clock reads 1970; beyond these, arithmetic on labels overflows
        raise BadMessageError(f"the node's wall clock says {label.isoformat()}")
    if len({gpu.uuid for gpu in report.gpus}) != len(report.gpus):
        raise BadMessageError("the report names a GPU twice")
    if isinstance(report, Heartbeat) and len({tick.runner for tick in report.runners}) != len(report.runners):
        raise BadMessageError("the report names a runner twice")
    return report


def fit(observation: Observation) -> Observation:
    """The same observation in at most 60 KiB: explanation goes first, marked as cut; never GPUs, verdicts or ticks."""
    for cut in (_without_places, _without_commands, _without_owners, _without_processes):
        if len(encode(observation)) <= MAX_MESSAGE_BYTES:
            return observation
        gpus = [cut(gpu) for gpu in observation.gpus]
        observation = replace(observation, gpus=gpus)
    if len(encode(observation)) <= MAX_MESSAGE_BYTES:
        return observation
    return replace(observation, ticks=[_without_words(tick) for tick in observation.ticks])


def _without_words(tick: Tick) -> Tick:
    return replace(tick, api_detail="", canary_detail="", missing=[], witnesses=[_bare(w) for w in tick.witnesses])


def _bare(witness: Witness) -> Witness:
    return replace(witness, detail="")


def without_place(process: Process) -> Process:
    """Without container, pod and job."""
    return replace(process, container=None, pod=None, job=None)


def _without_places(gpu: GpuWindow) -> GpuWindow:
    return replace(gpu, processes=[replace(without_place(process), started="") for process in gpu.processes])


def _without_commands(gpu: GpuWindow) -> GpuWindow:
    return replace(gpu, processes=[replace(process, command=None) for process in gpu.processes])


def _without_owners(gpu: GpuWindow) -> GpuWindow:
    return replace(gpu, processes=[replace(process, user=None) for process in gpu.processes])


def _without_processes(gpu: GpuWindow) -> GpuWindow:
    kept = gpu.processes[:KEPT_PROCESSES]
    return replace(gpu, processes=kept, processes_cut=gpu.processes_cut + len(gpu.processes) - len(kept))
