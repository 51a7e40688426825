"""Reads from a process's control groups who put it there: container, pod, Slurm job."""

import re
from functools import lru_cache

import msgspec

_CONTAINER_ID = r"([0-9a-f]{64})"
# A scope of a runtime's systemd driver, or a folder of its cgroupfs driver.
_CONTAINERS = (
    ("docker", re.compile(rf"docker-{_CONTAINER_ID}\.scope|docker/{_CONTAINER_ID}")),
    (
        "containerd",
        re.compile(rf"(?:cri-containerd|nerdctl)-{_CONTAINER_ID}\.scope|cri-containerd[:/-]{_CONTAINER_ID}"),
    ),
    ("cri-o", re.compile(rf"crio-{_CONTAINER_ID}(?:\.scope)?")),
    ("podman", re.compile(rf"libpod-{_CONTAINER_ID}(?:\.scope)?")),
    ("container", re.compile(rf"/pod[0-9a-f-]{{32,36}}/{_CONTAINER_ID}")),
    ("lxc", re.compile(r"/lxc(?:\.payload[./]|/)([A-Za-z0-9][A-Za-z0-9_.-]{0,62})")),
)
# `_` for `-` is systemd's writing; a static pod has a hash in place of a uid.
_POD = re.compile(r"kubepods[^:]*?[/-]pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})(?=[./]|$)")
# Only where slurmstepd itself makes them: elsewhere a user may name groups as he likes. Dots are for a reader in a
# control group namespace of its own.
_JOB = re.compile(
    r"(?:/\.\.)*/(?:(?:system\.slice/)?(?:[A-Za-z0-9.-]+_)?slurmstepd\.scope|slurm[^/]*/uid_[0-9]+)/job_([0-9]{1,12})(?=/|$)"
)


class Owner(msgspec.Struct, frozen=True):
    """Who put a process where it is. `is_known` False: the groups are hidden from the reader, so there may be one."""

    container: str | None = None
    pod_uid: str | None = None
    job: str | None = None
    is_known: bool = True


@lru_cache(maxsize=256)
def owner_of(cgroup: str) -> Owner:
    """The owner by the text of /proc/PID/cgroup, of version 1 or 2. Most texts are those of the sample before."""
    paths = [line.split(":", 2)[2] for line in cgroup.splitlines() if line.count(":") >= 2]
    container = next(filter(None, map(_container, paths)), None)
    pod_uid = next(filter(None, map(_pod_uid, paths)), None)
    job = next(filter(None, map(_job, paths)), None)
    if container or pod_uid or job:
        return Owner(container, pod_uid, job)
    return Owner(is_known=any(not _is_hidden(path) for path in paths))


def _container(path: str) -> str | None:
    """The innermost one, as `runtime:id`."""
    found = [
        (match.start(), f"{runtime}:{next(filter(None, match.groups()))}")
        for runtime, pattern in _CONTAINERS
        for match in pattern.finditer(path)
    ]
    return max(found, default=(0, None))[1]


def _pod_uid(path: str) -> str | None:
    match = _POD.search(path)
    return match.group(1).replace("_", "-") if match else None


def _job(path: str) -> str | None:
    match = _JOB.match(path)
    return match.group(1) if match else None


def _is_hidden(path: str) -> bool:
    """In a control group namespace of its own a reader sees paths from its own group on."""
    return path == "/" or path.startswith("/..")
