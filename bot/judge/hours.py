"""What one hour of a GPU came to, by verdict: for reports, never for judging."""

from datetime import datetime

import msgspec

from wire.labels import Label, label_of
from wire.messages import GpuWindow, Observation, Verdict


class Hour(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Seconds by verdict of one GPU in one hour of the node's wall clock: for the record, not for judging.

    `held_idle_seconds` are those held ones in which a process held memory and nothing was computed. Energy counts only
    where the power was read, for so many seconds.
    """

    at: datetime
    candidate_seconds: float = 0.0
    held_seconds: float = 0.0
    unknown_seconds: float = 0.0
    held_idle_seconds: float = 0.0
    idle_joules: float = 0.0
    idle_read_seconds: float = 0.0
    held_idle_joules: float = 0.0
    held_idle_read_seconds: float = 0.0

    def plus(self, other: "Hour") -> "Hour":
        """The sums of both, at this one's hour."""
        return Hour(
            self.at,
            self.candidate_seconds + other.candidate_seconds,
            self.held_seconds + other.held_seconds,
            self.unknown_seconds + other.unknown_seconds,
            self.held_idle_seconds + other.held_idle_seconds,
            self.idle_joules + other.idle_joules,
            self.idle_read_seconds + other.idle_read_seconds,
            self.held_idle_joules + other.held_idle_joules,
            self.held_idle_read_seconds + other.held_idle_read_seconds,
        )


def hour_of(observation: Observation) -> datetime:
    """The hour in which the window began."""
    return observation.started_at.replace(minute=0, second=0, microsecond=0)


def alone(window: GpuWindow, observation: Observation, hour: datetime) -> Hour:
    """The window's own seconds and energy in its hour."""
    seconds, watts = observation.window_seconds, window.power_mean_watts
    joules, read_seconds = (0.0, 0.0) if watts is None else (watts * seconds, seconds)
    if window.verdict is Verdict.CANDIDATE:
        return Hour(hour, seconds, 0.0, 0.0, 0.0, joules, read_seconds)
    if window.verdict is not Verdict.HELD:
        return Hour(hour, 0.0, 0.0, seconds)
    is_busy = window.utilization_max_percent != 0 and not window.only_canary_busy
    if is_busy or label_of(window) is not Label.HELD_IDLE:
        return Hour(hour, 0.0, seconds)
    return Hour(hour, 0.0, seconds, 0.0, seconds, 0.0, 0.0, joules, read_seconds)


def summed(hour: Hour | None, added: Hour) -> Hour:
    """The hour that is being summed, or a new one; a late window is not of this hour and left to the table."""
    if hour is None or added.at > hour.at:
        return added
    return hour if added.at < hour.at else hour.plus(added)
