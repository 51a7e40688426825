"""The values of a report."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from bot.judge.verdict import Said

SLOTS = 7 * 24  # hours of a week; 0 is Monday 00:00 on the channel's clock


class Price(msgspec.Struct, frozen=True):
    """What an idle GPU draws where its power was not read, and what a kWh costs. None: not known."""

    watts_idle: float | None = None
    per_kwh: float | None = None
    currency: str = ""


class Sums(msgspec.Struct, frozen=True, gc=False):
    """Seconds by verdict, and the energy where the power was read (for so many seconds)."""

    candidate: float = 0.0
    held: float = 0.0
    unknown: float = 0.0
    held_idle: float = 0.0
    idle_joules: float = 0.0
    idle_read: float = 0.0
    held_idle_joules: float = 0.0
    held_idle_read: float = 0.0

    @property
    def judged(self) -> float:
        return self.candidate + self.held

    @property
    def idle_share(self) -> float | None:
        """Of the judged time; None where nothing was judged."""
        return self.candidate / self.judged if self.judged > 0 else None


class GpuUse(msgspec.Struct, frozen=True):
    """One GPU of the report. `slots` are by hour of the week; None: nothing was reported in it."""

    node: str
    uuid: str
    index: int | None
    model: str | None
    total: Sums
    slots: Sequence[Sums | None]


class Energy(msgspec.Struct, frozen=True):
    """`kwh` None: nothing is known. `known_share` is the part of the hours whose power was read or given by the config.

    `cost` None: no price is given.
    """

    kwh: float | None = None
    known_share: float = 0.0
    cost: float | None = None


class Stall(msgspec.Struct, frozen=True):
    """One problem of a runner. Seconds; None: it did not come to that (nobody acknowledged, it still goes on)."""

    subject: str
    what: str
    opened_at: datetime
    detect_seconds: float
    acknowledge_seconds: float | None
    recover_seconds: float | None
    lost: float | None
    is_wrong: bool


class Precision(msgspec.Struct, frozen=True):
    """Of `said` words so many were `wrong`: because people said so, or by the record.

    `kept_quiet` would have been said in shadow mode; so many of them would have been wrong by the record.
    """

    said: int = 0
    wrong_by_people: int = 0
    wrong_by_record: int = 0
    kept_quiet: int = 0
    kept_quiet_wrong: int = 0

    @property
    def share_right(self) -> float | None:
        """None where nothing was said."""
        return 1 - min(self.wrong_by_people + self.wrong_by_record, self.said) / self.said if self.said else None


class Remedies(msgspec.Struct, frozen=True):
    """Restarts and reboots that were asked for, by what became of them. `open` are those that are not decided yet."""

    asked: int = 0
    done: int = 0
    not_done: int = 0
    failed: int = 0
    unknown: int = 0
    open: int = 0


class Report(msgspec.Struct, frozen=True):
    """`audit_head` is the newest row of the record of remedies, "" where there is none. `blind_seconds` are of nodes.

    `unreadable` rows of the record could not be used and are left out.
    """

    since: datetime
    until: datetime
    is_shadow: bool
    gpus: Sequence[GpuUse]
    total: Sums
    idle_energy: Energy
    held_idle_energy: Energy
    stalls: Sequence[Stall]
    free_words: Precision
    stall_words: Precision
    blind: int
    blind_seconds: float
    findings: Sequence[Said]
    remedies: Remedies = Remedies()
    audit_head: str = ""
    unreadable: int = 0
    currency: str = ""
