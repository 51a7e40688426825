"""Which keys may sign the bot's orders: the one that `join` brought, changed since by the key that counted before."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from agent.clock import Clock
from wire import nodefiles
from wire.files import write_private
from wire.keychange import BadKeyChangeError, decode_key_change, key_name

log = logging.getLogger(__name__)

OLD_KEY_LIFE = timedelta(hours=1)  # an order that was signed before the change may still be on its way


class _Before(msgspec.Struct, frozen=True):
    """The key before `successor`. Counted by the time since boot: no clock that is set gives it more life."""

    key: bytes
    successor: bytes
    boot_id: str
    until_seconds: float


class TrustedKeys:
    """The files of one state folder, read at each question: `join` and a change count without a restart.

    `name` is the newest key's, for the heartbeat, "" where there is none. It is only kept in memory: a disk that hangs
    must not hold up heartbeats.
    """

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self._file = nodefiles.order_key_file(state_dir)
        self._before_file = self._file.with_name("bot.pub.before")
        self._clock = clock
        self.name = ""
        self.look()

    def look(self) -> None:
        """Takes the name anew: `join` may have brought another key."""
        self.name = _name_of(self._current())

    def valid(self) -> Sequence[bytes]:
        """The raw public keys that an order may be signed with now, the newest first; none: no order counts here."""
        current = self._current()
        if current is None:
            return ()
        before = self._before()
        is_over = before is None or before.successor != current or before.boot_id != self._clock.boot_id()
        if before is None or is_over or self._clock.boottime_seconds() >= before.until_seconds:
            return (current,)
        return (current, before.key)

    def take(self, body: bytes) -> bool:
        """Believes a change; False where it is known already. Raises BadKeyChangeError with nothing changed, OSError.

        Only the newest key may name the next one: a key that was stolen and replaced cannot win back the node within
        its last hour.
        """
        change = decode_key_change(body)
        current = self._current()
        self.name = _name_of(current)
        if current == change.new_key:
            return False
        if current is None or change.old_key != current:
            raise BadKeyChangeError("it was not signed with the key that counts here")
        until = self._clock.boottime_seconds() + OLD_KEY_LIFE.total_seconds()
        before = _Before(current, change.new_key, self._clock.boot_id(), until)
        write_private(self._before_file, msgspec.json.encode(before).decode() + "\n")
        write_private(self._file, nodefiles.order_key_text(change.new_key))
        self.name = key_name(change.new_key)
        return True

    def _current(self) -> bytes | None:
        try:
            return nodefiles.read_order_key(self._file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.error("the bot's key cannot be read, no order counts here file=%s error=%s", self._file, error)
            return None

    def _before(self) -> _Before | None:
        try:
            return msgspec.json.decode(self._before_file.read_bytes(), type=_Before)
        except (OSError, ValueError):
            return None


def _name_of(key: bytes | None) -> str:
    return "" if key is None else key_name(key)
