"""Programs that are measured beside ours: one that runs meanwhile, and waiting until something is so."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

_DEADLINE_SECONDS = 120.0


@contextlib.contextmanager
def running(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """Its pid. What it says is in that folder's log, the end of it in the error where it ended by itself."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process.pid
        assert process.poll() is None, f"{command[0]} ended: {(folder / 'log').read_text(errors='replace')[-2000:]}"
    finally:
        process.terminate()
        process.wait()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {_DEADLINE_SECONDS:g} s: {what}"
        threading.Event().wait(0.1)
