"""One lock for all agents of a host: two of them never act at once."""

import contextlib
import fcntl
import os
import stat
from pathlib import Path


class HostBusyError(Exception):
    """Another agent of this host holds it, or nobody can tell; the text says which."""


class HostLock:
    """Held until `release`, or until the program ends, whatever ends it.

    The file may lie where everybody may write: a link or a file that is not plain is not followed, and one of another
    user is not used, since that user could hold it for ever. It is opened for reading only: agents of several users can
    share one that root has made for them.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, -1

    def take(self) -> None:
        """Raises HostBusyError."""
        try:
            handle = _opened(self._path)
        except OSError as error:
            raise HostBusyError(f"the lock of this host, {self._path}, cannot be opened: {error.strerror}") from error
        try:
            why = _why_unusable(handle)
            if why:
                raise HostBusyError(f"the lock of this host, {self._path}, {why}")
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise HostBusyError("another agent of this host is doing something now") from error
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def release(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _opened(path: Path) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags)
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:  # another agent was a moment faster
        return os.open(path, flags)


def _why_unusable(handle: int) -> str:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        return "is no plain file"
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to another user (uid {found.st_uid}): remove it, or set agent.remedies.lock_file"
    return ""
