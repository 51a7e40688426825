"""What this host says of its schedulers' daemons and of its GPUs' device files."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.proc_files import read_proc

_PROC = Path("/proc")
_UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]{36})\s*$", re.MULTILINE)
_MINOR = re.compile(r"^Device Minor:\s*([0-9]{1,3})\s*$", re.MULTILINE)


def daemons(names: frozenset[str], proc: Path = _PROC) -> frozenset[str]:
    """Which of the names are programs of root that run now: anybody may call his own program like that."""
    return frozenset(_running(names, proc))


def _running(names: frozenset[str], proc: Path) -> Iterator[str]:
    for pid in os.listdir(proc):
        if not pid.isdecimal():
            continue
        try:
            name = read_proc(f"{proc}/{pid}/comm").rstrip("\n")
            if name in names and os.stat(f"{proc}/{pid}").st_uid == 0:
                yield name
        except OSError:  # it ended just now
            continue


def gpus_by_minor(proc: Path = _PROC) -> Mapping[int, str]:
    """UUIDs by the number of /dev/nvidiaN, as the kernel's driver tells; empty where it does not."""
    found = {}
    for file in proc.glob("driver/nvidia/gpus/*/information"):
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        uuid, minor = _UUID.search(text), _MINOR.search(text)
        if uuid and minor:
            found[int(minor.group(1))] = uuid.group(1)
    return found
