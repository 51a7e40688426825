"""CPU time and memory of other processes, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """`cpu_seconds` since each process began; PSS counts a page that several share in parts."""

    cpu_seconds: float
    pss_mib: float

    def __sub__(self, before: "Usage") -> "Usage":
        return Usage(self.cpu_seconds - before.cpu_seconds, self.pss_mib)


def peak_mib(pid: int) -> float:
    """The most that it ever held (RSS, which counts what programs share in full)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def usage(pid: int) -> Usage:
    """Of this one process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    pss_kib = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, pss_kib / 1024)
