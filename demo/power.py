"""A simulated machine that can be rebooted: all that runs on it ends, and it comes back with another boot id."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from demo.machine import Program

LOOK_EVERY_SECONDS = 0.1


class Power:
    """`reboot_command` and `restart_command` are what its agent runs; both only leave a file, which is seen here.

    `booted` and `restarted` bring back what ran on the machine beside the agent.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        booted: Callable[[], Awaitable[None]],
        restarted: Callable[[], Awaitable[None]] | None = None,
        off_seconds: float = 1.0,
    ) -> None:
        self.boot_file = folder / f"{name}.boot"
        self._reboot, self._restart = folder / f"{name}.reboot", folder / f"{name}.restart"
        self._booted, self._restarted, self._off_seconds = booted, restarted, off_seconds
        self.also: Sequence[Program] = ()  # what else runs on this machine and goes away with it
        self.reboots = self.restarts = 0
        self._new_boot()

    @property
    def reboot_command(self) -> list[str]:
        return ["/usr/bin/touch", str(self._reboot)]

    @property
    def restart_command(self) -> list[str]:
        return ["/usr/bin/touch", str(self._restart)]

    async def watch(self, agent: Program) -> None:
        """Until it is cancelled. A power cut of the agent is how the machine goes away."""
        while True:
            if self._reboot.exists():
                await self._cycle(agent)
            elif self._restart.exists():
                self.restarts += 1
                if self._restarted is not None:
                    await self._restarted()
                self._restart.unlink()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _cycle(self, agent: Program) -> None:
        self.reboots += 1
        for program in (*self.also, agent):
            await program.kill()
        self._reboot.unlink()
        self._new_boot()
        await asyncio.sleep(self._off_seconds)
        await self._booted()
        for program in (*self.also, agent):
            await program.start()

    def _new_boot(self) -> None:
        self.boot_file.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
