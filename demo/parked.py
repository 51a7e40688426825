"""The machine that a runner holds: a process that stands for it, and power that can be cut."""

import subprocess
from pathlib import Path

from demo.gpus import parked, play
from demo.machine import ends_with_us
from demo.power import Power
from demo.runner import Runner, State


class ParkedMachine:
    """After a restart or a reboot the runner is a new process, and works."""

    def __init__(self, folder: Path, name: str, number: int, recording: Path, runner: Runner) -> None:
        self._number, self._recording, self._runner = number, recording, runner
        self.pid_file = folder / f"{name}.pid"
        self._process: subprocess.Popen[bytes] | None = None
        self.power = Power(folder, name, self._back, self._back)

    @property
    def pid(self) -> int:
        """Of the process that holds its GPU."""
        assert self._process is not None
        return self._process.pid

    def begin(self) -> None:
        """Whoever begins it ends it."""
        self._process = subprocess.Popen(
            ends_with_us(["/bin/sleep", "86400"]), stdin=subprocess.DEVNULL, process_group=0
        )
        self.pid_file.write_text(str(self._process.pid), encoding="ascii")
        play(self._recording, parked(0, self._number, self._process.pid))

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def _back(self) -> None:
        self.end()
        self.begin()
        self._runner.become(State.WORKING)
