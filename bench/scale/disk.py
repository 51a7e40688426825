"""What the disk alone needs: the server syncs every window before it acknowledges it, one after the other."""

import os
import tempfile
import time
from pathlib import Path

from bench.scale.reports import window_body

_SYNCS = 500


def seconds_per_sync(folder: Path, syncs: int = _SYNCS) -> float:
    """The mean of so many windows, appended to one file in the folder and each synced."""
    body = window_body("gpu-00000", 1, idle=False)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        began = time.perf_counter()
        for _ in range(syncs):
            file.write(body)
            os.fsync(file.fileno())
        return (time.perf_counter() - began) / syncs
