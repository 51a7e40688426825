"""What a collector read in one sweep, before anything is concluded from it."""

from collections.abc import Mapping

import msgspec

from wire.messages import ProcessKind


class Unreadable(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A value that the driver did not give; `why` is its own token or error name. Never to be taken for 0."""

    why: str


class ProcessReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process as the driver lists it. `used_memory_bytes` None means not available."""

    pid: int
    kind: ProcessKind
    used_memory_bytes: int | None = None


class GpuReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One GPU in one sweep, read in the order utilisation, memory, compute, graphics, utilisation again.

    `graphics` None means that this collector cannot list graphics processes at all: memory must then be exactly 0.
    `recent_peak_percent` is the highest buffered utilisation sample since the last sweep (nvmlDeviceGetSamples), None
    where the driver has none. `mig_enabled` None means not supported by the card. `recovery_action` None means that
    the driver does not tell; "None" is the driver's own word for nothing to do. `power_milliwatts` is for reports only.
    """

    index: int
    uuid: str
    utilization_percent: int | Unreadable
    memory_used_bytes: int | Unreadable
    compute: tuple[ProcessReading, ...] | Unreadable
    graphics: tuple[ProcessReading, ...] | Unreadable | None
    utilization_again_percent: int | Unreadable
    model: str | None = None
    memory_total_bytes: int | Unreadable | None = None
    recent_peak_percent: int | Unreadable | None = None
    mig_enabled: bool | Unreadable | None = None
    recovery_action: str | Unreadable | None = None
    power_milliwatts: int | None = None


class ProcessView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether an empty process list proves anything here: `obstacles` holds a sentence per reason why it does not.

    With an `error` the whole sample is one. `programs` are the file names of graphics processes' executables by PID,
    read only where the operator set `ignore_graphics`.
    """

    obstacles: tuple[str, ...] = ()
    error: str | None = None
    programs: Mapping[int, str] = {}


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reading of all GPUs of the node. With an `error` nothing is concluded for any GPU, and `gpus` is empty.

    `released` says by whom and until when, where a person wants the agent to keep off the driver, with an `error`.
    `view` belongs to a recording; None means that the process view of this host, now, counts.
    """

    gpus: tuple[GpuReading, ...] = ()
    error: str | None = None
    driver_version: str | None = None
    view: ProcessView | None = None
    released: str | None = None


class KnownGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU that this node had before."""

    index: int
    model: str | None = None


class Baseline(msgspec.Struct, frozen=True):
    """Exact bytes that an idle GPU of a model reads under one driver version; void under another."""

    driver: str | None = None
    bytes_by_model: Mapping[str, int] = {}
