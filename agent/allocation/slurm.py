"""Which Slurm job has which GPU: by the files of a prolog, else by the jobs' control groups; asks no daemon."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent.allocation.given import Given, NodeGpus

DAEMONS = frozenset({"slurmd", "slurmstepd"})
NVIDIA_MAJOR = 195  # of /dev/nvidiaN (kernel, Documentation/admin-guide/devices.txt)
SHOWN_JOBS = 4

_CGROUPS = Path("/sys/fs/cgroup")
_ROOTS = ("system.slice/*slurmstepd.scope", "*slurmstepd.scope", "*/slurm*/uid_*")
_DEVICES_V1 = "devices/slurm*/uid_*/job_*"
_JOB = re.compile(r"job_([0-9]{1,12})", re.ASCII)
_ALLOWED = re.compile(r"([abc]) (\*|[0-9]+):(\*|[0-9]+) [rwm]+", re.ASCII)
_FILE = re.compile(r"([0-9]{1,3})(\.[0-9]{1,3})?", re.ASCII)


class Slurm:
    """`job_dir`: files named after a GPU's index or UUID, one job id a line, like dcgm-exporter's HPC job mapping.

    Without it the control groups say whether there are jobs at all; only those of version 1 say which GPUs they have.
    """

    name = "Slurm"

    def __init__(self, job_dir: Path | None, cgroups: Path = _CGROUPS) -> None:
        self._job_dir, self._cgroups = job_dir, cgroups

    def read(self, gpus: NodeGpus, daemons: frozenset[str]) -> Given | None:
        try:
            if self._job_dir is not None:
                return _by_files(self._job_dir, gpus)
            roots = [root for pattern in _ROOTS for root in self._cgroups.glob(pattern)]
            if not roots:
                return (
                    None
                    if not daemons & DAEMONS
                    else Given(error="slurmd runs without control groups: set slurm_job_dir")
                )
            return self._by_cgroups(roots, gpus)
        except OSError as error:
            return Given(error=f"the jobs of Slurm cannot be read: {error.strerror} ({error.filename})")

    def close(self) -> None:
        """Nothing is held open."""

    def _by_cgroups(self, roots: Iterable[Path], gpus: NodeGpus) -> Given:
        jobs = {match.group(1) for root in roots for child in root.iterdir() if (match := _JOB.fullmatch(child.name))}
        minors = {job: _minors(folder) for job, folder in self._constrained()}
        unclear = sorted((job for job in jobs if minors.get(job) is None), key=int)
        holders = {
            gpus.by_minor()[minor]: f"Slurm job {job}"
            for job, devices in minors.items()
            for minor in devices or ()
            if minor in gpus.by_minor()
        }
        return Given(holders, _unclear(unclear) or _unmapped(minors.values(), gpus))

    def _constrained(self) -> Iterator[tuple[str, Path]]:
        for folder in self._cgroups.glob(_DEVICES_V1):
            if match := _JOB.fullmatch(folder.name):
                yield match.group(1), folder


def _unclear(jobs: list[str]) -> str | None:
    if not jobs:
        return None
    named = ", ".join(jobs[:SHOWN_JOBS]) + (" and more" if len(jobs) > SHOWN_JOBS else "")
    return f"Slurm job {named} runs here, and control groups do not tell which GPUs it has: set slurm_job_dir"


def _unmapped(minors: Iterable[set[int] | None], gpus: NodeGpus) -> str | None:
    unknown = sorted({minor for devices in minors for minor in devices or () if minor not in gpus.by_minor()})
    return f"a Slurm job has /dev/nvidia{unknown[0]}, which is no known GPU here" if unknown else None


def _minors(job: Path) -> set[int] | None:
    """The device files /dev/nvidiaN that a job may open; None where it may open any. 255 is nvidiactl."""
    found = set()
    for line in (job / "devices.list").read_text().splitlines():
        match = _ALLOWED.fullmatch(line.strip())
        if match is None or match.group(1) == "a":
            return None
        kind, major, minor = match.groups()
        if kind != "c" or major not in ("*", str(NVIDIA_MAJOR)):
            continue
        if minor == "*" or major == "*":
            return None
        if int(minor) < 255:
            found.add(int(minor))
    return found


def _by_files(folder: Path, gpus: NodeGpus) -> Given:
    holders: dict[str, str] = {}
    errors = []
    for file in sorted(folder.iterdir()):
        jobs = file.read_text(errors="replace").split() if not file.name.startswith(".") else []
        if not jobs:
            continue
        uuid = _gpu_of(file.name, gpus)
        if uuid is None:
            errors.append(f"{folder} has a file {file.name[:60]!r}, which is no GPU here")
        else:
            holders[uuid] = f"Slurm job {', '.join(dict.fromkeys(job[:20] for job in jobs[:SHOWN_JOBS]))}"
    return Given(holders, "; ".join(errors) or None)


def _gpu_of(name: str, gpus: NodeGpus) -> str | None:
    if (uuid := gpus.named_in(name)) is not None:
        return uuid
    match = _FILE.fullmatch(name)
    return gpus.by_index.get(int(match.group(1))) if match else None
