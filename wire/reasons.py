"""Why a verdict is what it is: stable codes, and the English sentence of each."""

from enum import StrEnum

import msgspec


class ReasonCode(StrEnum):
    """A newer agent may send a code that this version does not know: it decodes as `UNKNOWN`."""

    UNKNOWN = "unknown"
    # a GPU is held
    UTILIZATION = "utilization"
    MEMORY_HELD = "memory_held"
    COMPUTE_PROCESS = "compute_process"
    GRAPHICS_PROCESS = "graphics_process"
    # a GPU cannot be judged
    UTILIZATION_UNREADABLE = "utilization_unreadable"
    MEMORY_UNREADABLE = "memory_unreadable"
    PROCESSES_UNREADABLE = "processes_unreadable"
    MIG_ENABLED = "mig_enabled"
    PROCESS_VIEW = "process_view"
    RECOVERY_ACTION = "recovery_action"
    MIG_UNREADABLE = "mig_unreadable"
    RECOVERY_ACTION_UNREADABLE = "recovery_action_unreadable"
    TOO_FEW_SAMPLES = "too_few_samples"
    AGENT_RESTARTED = "agent_restarted"
    # a whole sample is an error
    SAMPLE_ERROR = "sample_error"
    GPU_MISSING = "gpu_missing"
    RELEASED = "released"
    # a GPU is idle
    ALL_IDLE = "all_idle"

    @classmethod
    def _missing_(cls, value: object) -> "ReasonCode":
        return cls.UNKNOWN


# With one of these a GPU's list of processes may leave some out, although the driver reports success.
UNLISTED = frozenset({ReasonCode.PROCESS_VIEW, ReasonCode.MIG_ENABLED, ReasonCode.MIG_UNREADABLE})


class Reason(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One reason. `detail` is a number or a short text from the node (foreign: escape it), or ""."""

    code: ReasonCode
    detail: str = ""


ENGLISH: dict[ReasonCode, str] = {
    ReasonCode.UNKNOWN: "a reason that this version does not know: {detail}",
    ReasonCode.UTILIZATION: "utilisation was {detail} %",
    ReasonCode.MEMORY_HELD: "{detail} bytes of memory are in use",
    ReasonCode.COMPUTE_PROCESS: "a compute process is listed: PID {detail}",
    ReasonCode.GRAPHICS_PROCESS: "a graphics process is listed: PID {detail}",
    ReasonCode.UTILIZATION_UNREADABLE: "utilisation cannot be read: {detail}",
    ReasonCode.MEMORY_UNREADABLE: "memory cannot be read: {detail}",
    ReasonCode.PROCESSES_UNREADABLE: "the list of processes cannot be read: {detail}",
    ReasonCode.MIG_ENABLED: "MIG is enabled: MIG is not judged yet",
    ReasonCode.PROCESS_VIEW: "the list of processes proves nothing here: {detail}",
    ReasonCode.RECOVERY_ACTION: "the driver asks for a recovery action: {detail}",
    ReasonCode.MIG_UNREADABLE: "whether MIG is enabled cannot be read: {detail}",
    ReasonCode.RECOVERY_ACTION_UNREADABLE: "whether the driver asks for a recovery action cannot be read: {detail}",
    ReasonCode.TOO_FEW_SAMPLES: "too few samples: {detail}",
    ReasonCode.AGENT_RESTARTED: "the agent restarted in this window",
    ReasonCode.SAMPLE_ERROR: "the reading failed: {detail}",
    ReasonCode.GPU_MISSING: "a GPU that this node had before is missing: {detail}",
    ReasonCode.RELEASED: "the GPUs are released by {detail}",
    ReasonCode.ALL_IDLE: "utilisation 0, memory idle, no process",
}


def in_english(reason: Reason) -> str:
    """The sentence that terminals and logs show, with the stable code in front."""
    return f"{reason.code}: {ENGLISH[reason.code].format(detail=reason.detail)}"
