"""An installed program as a process: wherever it was installed, a test waits for what it logs and then ends it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.nats_server import until

PATIENCE_SECONDS = 60.0


def is_alive(pid: int) -> bool:
    """Not a zombie: in a container whose first process takes no leave of others, those stay for ever."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


class Started:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process, self.log = process, log

    async def says(self, text: str) -> None:
        """Returns when the program has logged the text; a program that ended before is told with its log."""

        def is_said() -> bool:
            said = self.log.read_text(errors="replace")
            assert text in said or self.process.returncode is None, f"it ended without {text!r}: {said[-3000:]}"
            return text in said

        await until(is_said, f"{text!r} in {self.log}", PATIENCE_SECONDS)


@asynccontextmanager
async def started(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Started]:
    """Runs with `folder` as its working directory, and must end cleanly when it is told to (SIGTERM)."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env={**os.environ, **(environment or {})}, stdout=file, stderr=file
        )
    try:
        yield Started(process, log)
        process.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
        assert status == 0, log.read_text(errors="replace")[-3000:]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
