"""The embedded server's folder: its lock, a server left over from before, and what is put aside."""

import fcntl
import logging
import os
import signal
from datetime import datetime
from pathlib import Path
from typing import TextIO

from bot.broker.errors import BrokerError

log = logging.getLogger(__name__)


class Folder:
    """`nats/` in the data_dir. One bot at a time: the lock ends with the process that has it."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "nats"
        self.conf = self.path / "server.conf"
        self.pid_file = self.path / "server.pid"
        self.store = self.path / "store"
        self._aside = self.path / "aside"
        self._lock: TextIO | None = None

    def take(self) -> None:
        """Makes the folder and locks it. Raises BrokerError when another bot has it."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self.path / "lock").open("a+")
        except OSError as error:
            raise BrokerError(f"{self.path} cannot be used: {error.strerror}; see data_dir in the config") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            owner = lock.read().strip()
            lock.close()
            raise BrokerError(f"another gpu-oncall (PID {owner}) runs on {self.path.parent}: stop it first") from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def give_back(self) -> None:
        if self._lock is not None:
            self._lock.close()
        self._lock = None

    def orphan(self) -> int | None:
        """The PID of a server that an earlier bot left behind; None without one, or where the system has no /proc."""
        try:
            pid = int(self.pid_file.read_text())
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.conf) in arguments else None

    def end_orphan(self, how: signal.Signals) -> None:
        pid = self.orphan()
        if pid is not None:
            log.warning("a nats-server of an earlier bot still runs, ending it pid=%d signal=%s", pid, how.name)
            os.kill(pid, how)

    def put_aside(self, lost: tuple[str, ...], now: datetime) -> Path:
        """Moves what the server cannot recover out of its store, never deletes it; returns where it lies now.

        Raises BrokerError when it is not there.
        """
        account, stream, *consumer = lost
        source = self.store / "jetstream" / account / "streams" / stream
        for name in consumer:
            source = source / "obs" / name
        target = self._aside / f"{'-'.join(lost)}-{now:%Y%m%dT%H%M%S.%f}"
        try:
            self._aside.mkdir(mode=0o700, exist_ok=True)
            os.rename(source, target)
        except OSError as error:
            raise BrokerError(f"{source} cannot be recovered and cannot be put aside: {error.strerror}") from error
        return target
