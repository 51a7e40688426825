"""What this host says of itself: whether the driver's list of processes can be believed here."""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from agent.reading import ProcessView

INIT_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, fixed by the kernel (include/linux/proc_ns.h)
_MPS_ENUMERATION = "NVML_MPS_DEVICE_ENUMERATION"
_SHIM = "libvgpu"  # HAMi and 4paradigm: they show a container's share as if it were the GPU

INIT_CGROUP_NAMESPACE = "cgroup:[4026531835]"  # PROC_CGROUP_INIT_INO, likewise

_PROC = Path("/proc")


def hidden_owners(*, proc: Path = _PROC) -> str | None:
    """What keeps this process from seeing whose the others are; None: nothing. For explanation only."""
    try:
        namespace = os.readlink(proc / "self/ns/cgroup")
        (proc / "1/stat").read_text()
    except OSError as error:
        return f"/proc does not show other users' processes ({error.strerror})"
    if namespace != INIT_CGROUP_NAMESPACE:
        return "the agent runs in a cgroup namespace of its own: containers, pods and jobs may stay unknown"
    return None


def process_view(
    graphics_pids: Iterable[int] = (), *, proc: Path = _PROC, environ: Mapping[str, str] | None = None
) -> ProcessView:
    """The view of this process. `graphics_pids` are those whose program's name the operator's setting needs."""
    environ = os.environ if environ is None else environ
    obstacles = (*_namespace_obstacles(proc), *_shim_obstacles(proc, environ))
    programs = {pid: name for pid in graphics_pids if (name := _program(proc, pid)) is not None}
    return ProcessView(obstacles, _enumeration_error(environ), programs)


def _enumeration_error(environ: Mapping[str, str]) -> str | None:
    """With this variable NVML lists MPS locality domains in place of GPUs (nvml.h 13.5)."""
    if _MPS_ENUMERATION not in environ:
        return None
    return f"the environment variable {_MPS_ENUMERATION} is set: remove it from the agent's environment"


def _namespace_obstacles(proc: Path) -> Iterator[str]:
    """Outside the initial PID namespace the driver leaves out other processes and reports success."""
    try:
        namespace = os.readlink(proc / "self/ns/pid")
    except OSError as error:
        yield f"the agent's PID namespace cannot be read ({error.strerror})"
        return
    if namespace != INIT_PID_NAMESPACE:
        yield "the agent runs in a PID namespace of its own: run it on the host, or with hostPID: true or --pid=host"


def _shim_obstacles(proc: Path, environ: Mapping[str, str]) -> Iterator[str]:
    if environ.get("LD_PRELOAD"):
        yield "LD_PRELOAD is set: a preloaded library may change the driver's answers; unset it for the agent"
    try:
        is_shimmed = _is_in(proc / "self/maps", _SHIM)
    except OSError as error:
        yield f"the libraries loaded into the agent cannot be read ({error.strerror})"
        return
    if is_shimmed:
        yield f"{_SHIM} is loaded into the agent: it shows a share of a GPU; run the agent on the host"


@cache
def _is_in(maps: Path, name: str) -> bool:
    """Read once, as the kernel needs 0.7 ms for it: what is preloaded comes with the start of a process.

    What comes later is in the worker, the process that loads the driver's library: it looks at itself.
    """
    return name.encode() in maps.read_bytes()


def _program(proc: Path, pid: int) -> str | None:
    """The executable's file name; a process can choose its other names freely. None: not readable."""
    try:
        return os.path.basename(os.readlink(proc / str(pid) / "exe"))
    except OSError:
        return None
