"""What a judge says of a thing it watches: present, absent or unknown, and why."""

from datetime import datetime
from enum import StrEnum

import msgspec

from wire.reasons import Reason


class Presence(StrEnum):
    """PRESENT: the finding holds now. ABSENT: it does not. UNKNOWN: cannot be told; opens and closes nothing."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Because(StrEnum):
    """Why a GPU may or may not be called free now."""

    CONFIRMED = "confirmed"
    WINDOW_HELD = "window_held"
    SAMPLE_HELD = "sample_held"
    ALLOCATED = "allocated"
    CLAIMED = "claimed"
    NEW_BOOT = "new_boot"
    STREAK_TOO_SHORT = "streak_too_short"
    WINDOW_NOT_JUDGED = "window_not_judged"
    WINDOW_PENDING = "window_pending"
    NO_HEARTBEAT = "no_heartbeat"
    HEARTBEAT_OLD = "heartbeat_old"
    OTHER_SPOOL = "other_spool"
    SAMPLE_OLD = "sample_old"
    SAMPLE_NOT_CANDIDATE = "sample_not_candidate"
    ALLOCATION_UNREADABLE = "allocation_unreadable"
    GPU_NOT_REPORTED = "gpu_not_reported"
    WINDOW_TOO_SHORT = "window_too_short"
    RECORDING = "recording"
    BLIND = "blind"
    NODE_REMOVED = "node_removed"


class Standing(msgspec.Struct, frozen=True):
    """The judgement of one GPU now. `streak` counts candidate windows in a row, whatever the judgement."""

    presence: Presence
    because: Because
    streak: int
    detail: str = ""
    reasons: tuple[Reason, ...] = ()


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence of the catalogue with its values. `texts` are foreign (they are escaped), `seconds` become lengths.

    `parts` are sentences that stand side by side in the place {parts}.
    """

    key: str
    texts: dict[str, str] = {}
    seconds: dict[str, float] = {}
    instants: dict[str, datetime] = {}
    parts: tuple["Said", ...] = ()
