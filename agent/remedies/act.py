"""Carries an order out: a service, a container, a command, a reboot; and says how it ended."""

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from typing import IO

import msgspec

from agent.remedy_config import Reboot, Restart
from wire.remedies import OrderState
from wire.ticks import sentence

log = logging.getLogger(__name__)

DOCKER_GRACE_SECONDS = 30  # from SIGTERM to SIGKILL; for a service its unit says it
REBOOT_COMMAND_SECONDS = 60.0
_GRACE = timedelta(seconds=10)
_READ_BYTES = 2048


class Ended(msgspec.Struct, frozen=True):
    """`state` DONE, FAILED or LOST, and a sentence."""

    state: OrderState
    detail: str


async def restart(how: Restart, environment: Mapping[str, str]) -> Ended:
    """Never raises. What takes too long is told as LOST: a service manager may still be at it."""
    if how.systemd_unit is not None:
        command, shows_words = ["systemctl", "--no-ask-password", "restart", "--", how.systemd_unit], True
    elif how.container is not None:
        command, shows_words = ["docker", "restart", "-t", str(DOCKER_GRACE_SECONDS), how.container], True
    else:
        command, shows_words = list(how.command or ()), False
    return await _run(command, how.timeout.total_seconds(), environment, shows_words)


async def reboot(how: Reboot, reason: str, environment: Mapping[str, str]) -> Ended:
    """Never raises. DONE says only that the reboot was taken: that it happened is seen by the next boot."""
    if how.command is not None:
        return await _run(how.command, REBOOT_COMMAND_SECONDS, environment, shows_words=False)
    command = ["systemctl", "--no-ask-password", f"--message={reason}", "reboot"]
    return await _run(command, REBOOT_COMMAND_SECONDS, environment, shows_words=True)


def way(how: Restart | Reboot) -> str:
    """How it is done, for people."""
    if isinstance(how, Reboot):
        return "systemd" if how.method == "systemd" else "command"
    if how.systemd_unit is not None:
        return f"systemd unit {how.systemd_unit}"
    return f"container {how.container}" if how.container is not None else "command"


async def _run(command: list[str], seconds: float, environment: Mapping[str, str], shows_words: bool) -> Ended:
    """`shows_words`: its last line may be told to people; a command of the operator's own may print secrets."""
    name = os.path.basename(command[0])
    with tempfile.TemporaryFile() as errors:
        # No pipe: what the command starts and leaves behind would hold it open.
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            return Ended(OrderState.FAILED, f"{name} cannot be started: {error.strerror}")
        try:
            async with asyncio.timeout(seconds):
                status = await process.wait()
        except TimeoutError:
            await _end(process, name)
            return Ended(OrderState.LOST, f"{name} did not end within {seconds:g} s, and was stopped")
        words = f": {_last_line(errors)}" if status and shows_words else ""
    if status == 0:
        return Ended(OrderState.DONE, f"{name} ended well")
    return Ended(OrderState.FAILED, f"{name} ended with status {status}{words}")


async def _end(process: asyncio.subprocess.Process, name: str) -> None:
    """SIGTERM before SIGKILL, to all that it started; never waits for what does not die."""
    for how, grace in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, timedelta(seconds=1))):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace.total_seconds()):
                await process.wait()
                return
    log.error("%s does not end after SIGKILL pid=%d", name, process.pid)


def _last_line(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _READ_BYTES))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return sentence(lines[-1]) if lines else "it said nothing"
