"""The node's release: a file by which a person makes the agent let go of the driver for a while, never in silence."""

import secrets
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from agent.clock import Clock
from wire.files import write_readable

REQUEST_NAME = "release.json"
ANSWER_NAME = "release.done.json"
LOCK_NAME = "agent.lock"  # held by the agent as long as it runs
LONGEST_RELEASE = timedelta(hours=24)

_VERSION = 1


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counted by the time since boot, so that a clock that is set changes nothing and a reboot ends it.

    `until` is a label. `request` tells one release from the next.
    """

    version: int
    request: str
    by: str
    reason: str
    boot_id: str
    until_seconds: float
    until: datetime

    def sentence(self) -> str:
        return f"released by {self.by_whom()}: gpu-oncall-agent release --end takes the GPUs up again"

    def by_whom(self) -> str:
        """And until when, and why."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.by} until {self.until:%Y-%m-%d %H:%M} UTC{why}"


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the agent made of a release. `kept` says why the driver could not be let go of; None: it was."""

    request: str
    kept: str | None = None


class ReleaseError(Exception):
    """There is a release file that cannot be used: somebody wants something, and nobody knows what."""


class Releases:
    """The files of one state folder."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self.path, self._answer_path = state_dir / REQUEST_NAME, state_dir / ANSWER_NAME
        self._clock = clock

    def current(self) -> Release | None:
        """The release that holds now; None also for one that ran out or is of another boot. Raises ReleaseError."""
        try:
            release = msgspec.json.decode(self.path.read_bytes(), type=Release)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ReleaseError(
                f"{self.path} cannot be read ({error}): run gpu-oncall-agent release --end, or again"
            ) from error
        is_over = self._clock.boottime_seconds() >= release.until_seconds
        return None if is_over or release.boot_id != self._clock.boot_id() else release

    def begin(self, by: str, reason: str, duration: timedelta) -> Release:
        """Replaces an earlier one; raises OSError."""
        release = Release(
            version=_VERSION,
            request=secrets.token_hex(8),
            by=by,
            reason=reason,
            boot_id=self._clock.boot_id(),
            until_seconds=self._clock.boottime_seconds() + duration.total_seconds(),
            until=self._clock.wall() + duration,
        )
        _write(self.path, msgspec.json.encode(release))
        return release

    def end(self) -> bool:
        """Whether there was one; raises OSError."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def answer(self, answer: Answer) -> None:
        """By the agent; raises OSError."""
        _write(self._answer_path, msgspec.json.encode(answer))

    def answer_to(self, release: Release) -> Answer | None:
        """The agent's answer to this very release, None as long as there is none."""
        try:
            answer = msgspec.json.decode(self._answer_path.read_bytes(), type=Answer)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return answer if answer.request == release.request else None


def _write(path: Path, body: bytes) -> None:
    """A reboot ends a release, so that it need not survive a power cut."""
    write_readable(path, body.decode() + "\n", survives_power_cut=False)
