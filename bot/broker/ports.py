"""Whether a port is free, and who has it when it is not."""

import contextlib
import errno
import os
import socket
from pathlib import Path

from bot.broker.errors import BrokerError
from wire.addresses import host_and_port

_LISTENING = "0A"


def require_free(address: str, key: str) -> None:
    """Raises BrokerError that names the program on this address; `key` is where the config names it."""
    host, port = host_and_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a just closed connection counts as taken
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise BrokerError(
                    f"{address} is in use by {_owner(port)}: stop it or choose another {key} in the config"
                ) from error
            raise BrokerError(f"{address} cannot be used: {error.strerror}; see {key} in the config") from error


def _owner(port: int) -> str:
    """The program that listens on the port, as far as this user may know (Linux only)."""
    try:
        links = {f"socket:[{inode}]" for inode in _inodes(port)}
        for process in Path("/proc").glob("[0-9]*"):
            if links & _open_files(process):
                return f"{(process / 'comm').read_text().strip()} (PID {process.name})"
    except OSError:
        pass
    return "another program"


def _inodes(port: int) -> list[str]:
    inodes = []
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.append(fields[9])
    return inodes


def _open_files(process: Path) -> set[str]:
    """What the process has open; nothing where it ended or belongs to another user."""
    found = set()
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(link))
    return found
