"""One bot per data folder: a second one would judge the same windows and press the same buttons."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from wire.configfile import ConfigError
from wire.files import give_to_owner


@contextlib.contextmanager
def only_bot(data_dir: Path) -> Iterator[None]:
    """Makes the folder and holds its lock; the lock ends with the process. Raises ConfigError."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data_dir / "bot.lock").open("a+")
        give_to_owner(data_dir / "bot.lock", data_dir)
    except OSError as error:
        raise ConfigError(
            f"the folder {data_dir} cannot be used: {error.strerror}: "
            "make it writable for this user, or set bot.data_dir to another folder"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise ConfigError(
                f"another gpu-oncall (PID {lock.read().strip()}) runs in {data_dir}: stop it first"
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def bot_runs(data_dir: Path) -> bool:
    """Whether a bot is known to hold the folder's lock; touches nothing."""
    try:
        return _is_held(data_dir)
    except OSError:
        return False


def bot_surely_runs(data_dir: Path) -> bool:
    """The same for who must know it. Raises ConfigError where this user cannot tell."""
    try:
        return _is_held(data_dir)
    except OSError as error:
        raise ConfigError(f"{data_dir} cannot be read: {error.strerror}: run this as the bot's user") from error


def _is_held(data_dir: Path) -> bool:
    try:
        with (data_dir / "bot.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
