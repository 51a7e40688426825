"""The process that holds NVML open: a question number per line in, one sweep as a JSON line out. Imports stay few."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

import pynvml

REOPEN_AFTER = frozenset({1, 9, 15, 18, 28})  # uninitialized, no driver, GPU lost, version mismatch, GPU not found
REOPEN_EVERY_SECONDS = 60.0  # one lost GPU must not reinitialise the others at every sweep
LARGEST_RESIDENT_BYTES = 128 * 1024 * 1024
LARGEST_POWER_MILLIWATTS = 10_000_000  # no card draws 10 kW: what is more was not measured
SIZE_RACE_TRIES = 3  # a list that grows between the two calls gives "insufficient size"

_SHIM = b"libvgpu"
_NOT_IN_DRIVER = frozenset({3, 13})  # not supported, function not found
_NO_SAMPLES = _NOT_IN_DRIVER | {6}  # not found: nothing was buffered
_UNKNOWN_FIELD = _NOT_IN_DRIVER | {2}  # invalid argument: the driver is older than the field
_REQUIRED = ("utilization_percent", "memory_used_bytes", "compute", "graphics", "utilization_again_percent")
_RECOVERY_ACTIONS = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")

_HINTS = {
    9: "load the NVIDIA driver",
    12: "install the NVIDIA driver, or make its libnvidia-ml.so.1 visible here",
    15: "a GPU fell off the bus: drain the node and reboot it",
    18: "the driver was upgraded while it was loaded: reload it or reboot the node",
    999: "in a container: start it again, its access to the GPUs is gone",
}

Reading = dict[str, Any]


class SweepError(Exception):
    """Nothing can be concluded for any GPU; `leaving` where only a new process can help."""

    def __init__(self, why: str, *, leaving: bool = False) -> None:
        super().__init__(why)
        self.leaving = leaving


class Nvml:
    """NVML opened once, its handles by index, and which buffered samples of each GPU were there at the last sweep."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._uuids: list[str] = []  # by index, from the last sweep in which no GPU was lost
        self._models: list[str | None] = []
        self._driver_version: str | None = None
        self._opened_at_seconds = 0.0
        self._samples_seen_us: dict[str, frozenset[int]] = {}
        self._codes: set[int] = set()

    def sweep(self) -> Reading:
        """Raises SweepError."""
        self._codes = set()
        try:
            if self._handles and pynvml.nvmlDeviceGetCount() != len(self._handles):
                self.close()
            if not self._handles:
                self._open()
            gpus = self._read_gpus()
        except SweepError:
            self.close()
            raise
        except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError, UnicodeDecodeError) as error:
            self.close()
            code = _code(error)
            hint = f": {_HINTS[code]}" if code in _HINTS else ""
            raise SweepError(_why(error) + hint, leaving=code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH) from error
        if self._codes & REOPEN_AFTER and time.monotonic() - self._opened_at_seconds > REOPEN_EVERY_SECONDS:
            self.close()
        return {"gpus": gpus, "driver_version": self._driver_version}

    def close(self) -> None:
        self._handles = []
        with suppress(pynvml.NVMLError):  # not open, or past closing: the next opening says what is wrong
            pynvml.nvmlShutdown()

    def _open(self) -> None:
        """By index, never by UUID: that fails for all GPUs as soon as any is lost (nvml.h)."""
        pynvml.nvmlInit()
        _require_no_shim()
        self._opened_at_seconds = time.monotonic()
        self._driver_version = pynvml.nvmlSystemGetDriverVersion()
        count = pynvml.nvmlDeviceGetCount()
        if count == 0:
            raise SweepError("NVML answered, but listed no GPU")
        handles = [_unless_lost(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        self._models = [None if handle is None else _model(handle) for handle in handles]
        self._handles = handles

    def _read_gpus(self) -> list[Reading]:
        """A lost GPU may have lost its UUID too: it keeps the earlier one where all the others kept theirs."""
        found: list[Any] = [
            None if handle is None else _unless_lost(pynvml.nvmlDeviceGetUUID, handle) for handle in self._handles
        ]
        if None not in found:
            self._uuids = found
        elif len(found) != len(self._uuids) or any(map(_is_another, found, self._uuids)):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return [
            self._lost_gpu(index, uuid) if found[index] is None else self._read_gpu(index, self._handles[index], uuid)
            for index, uuid in enumerate(self._uuids)
        ]

    def _lost_gpu(self, index: int, uuid: str) -> Reading:
        self._codes.add(pynvml.NVML_ERROR_GPU_IS_LOST)
        why = {"type": "Unreadable", "why": _why(pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST))}
        return {"index": index, "uuid": uuid, "model": self._models[index], **dict.fromkeys(_REQUIRED, why)}

    def _read_gpu(self, index: int, handle: Any, uuid: str) -> Reading:
        """The order matters: a job that starts between the reads shows in the second utilisation at the latest."""
        reading: Reading = {"index": index, "uuid": uuid, "model": self._models[index]}
        reading["mig_enabled"] = self._try(lambda: _mig_enabled(handle), _NOT_IN_DRIVER)
        reading["recovery_action"] = self._try(lambda: _recovery_action(handle), _UNKNOWN_FIELD)
        reading["utilization_percent"] = self._try(lambda: _utilization_percent(handle))
        reading |= self._read_memory(handle)
        reading["compute"] = self._read_compute(handle)
        reading["graphics"] = self._read_processes(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, handle, "graphics")
        reading["utilization_again_percent"] = self._try(lambda: _utilization_percent(handle))
        reading["recent_peak_percent"] = self._try(lambda: self._recent_peak_percent(handle, uuid), _NO_SAMPLES)
        reading["power_milliwatts"] = _power_milliwatts(handle)
        return reading

    def _read_memory(self, handle: Any) -> Reading:
        """Version 2 only: the `used` of version 1 includes reserved memory."""
        memory = self._try(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2))
        if isinstance(memory, dict):
            return {"memory_used_bytes": memory, "memory_total_bytes": memory}
        return {"memory_used_bytes": memory.used, "memory_total_bytes": memory.total}

    def _read_compute(self, handle: Any) -> Any:
        """With MPS's own list where the driver has one; its clients and server are in the first list as well."""
        compute = self._read_processes(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle, "compute")
        mps = self._read_processes(
            pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle, "compute", absent=_NOT_IN_DRIVER
        )
        if isinstance(compute, dict) or mps is None:
            return compute
        return mps if isinstance(mps, dict) else compute + mps

    def _read_processes(
        self, call: Callable[[Any], Any], handle: Any, kind: str, absent: frozenset[int] = frozenset()
    ) -> Any:
        listed = self._try(lambda: _patiently(call, handle), absent)
        if listed is None or isinstance(listed, dict):
            return listed
        return [{"pid": process.pid, "kind": kind, "used_memory_bytes": process.usedGpuMemory} for process in listed]

    def _recent_peak_percent(self, handle: Any, uuid: str) -> int | None:
        """Of the buffered samples that are new: their times are the wall clock's, so a later one may look older.

        The first sweep sees all that the driver has buffered: too much rather than too little.
        """
        seen = self._samples_seen_us.get(uuid, frozenset())
        _, samples = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
        self._samples_seen_us[uuid] = frozenset(sample.timeStamp for sample in samples)
        return max((int(one.sampleValue.uiVal) for one in samples if one.timeStamp not in seen), default=None)

    def _try(self, call: Callable[[], Any], absent: frozenset[int] = frozenset()) -> Any:
        """The call's value, None for a code that means that the driver has no such thing, or why it is unreadable."""
        try:
            return call()
        except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError) as error:
            code = _code(error)
            if code in absent:
                return None
            self._codes.add(code)
            return {"type": "Unreadable", "why": _why(error)}


def _require_no_shim() -> None:
    """HAMi's and 4paradigm's library may stand in for the driver's: it shows a container's share as if it were all."""
    try:
        with open("/proc/self/maps", "rb") as file:
            is_shimmed = _SHIM in file.read()
    except OSError as error:
        raise SweepError(f"the libraries loaded into the NVML worker cannot be read ({error.strerror})") from error
    if is_shimmed:
        raise SweepError(f"{_SHIM.decode()} is loaded: it shows a share of a GPU; run the agent on the host")


def _unless_lost(call: Callable[[Any], Any], argument: Any) -> Any:
    """None for a GPU that fell off the bus, which must not hide the others."""
    try:
        return call(argument)
    except pynvml.NVMLError as error:
        if _code(error) != pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None


def _is_another(found: str | None, earlier: str) -> bool:
    return found is not None and found != earlier


def _model(handle: Any) -> str | None:
    """For people and for the baseline only: a card without a readable name is read all the same."""
    try:
        name: str = pynvml.nvmlDeviceGetName(handle)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None
    return name


def _mig_enabled(handle: Any) -> bool:
    current, _pending = pynvml.nvmlDeviceGetMigMode(handle)
    return bool(current != pynvml.NVML_DEVICE_MIG_DISABLE)


def _recovery_action(handle: Any) -> str:
    (field,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(field.nvmlReturn)
    action: int = field.value.uiVal
    return _RECOVERY_ACTIONS[action] if action < len(_RECOVERY_ACTIONS) else f"action {action}"


def _utilization_percent(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def _power_milliwatts(handle: Any) -> int | None:
    """For reports only: whatever keeps it from being read says nothing of the GPU."""
    try:
        milliwatts = int(pynvml.nvmlDeviceGetPowerUsage(handle))
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None
    return milliwatts if milliwatts <= LARGEST_POWER_MILLIWATTS else None


def _patiently(call: Callable[[Any], Any], handle: Any) -> Any:
    for _ in range(SIZE_RACE_TRIES - 1):
        try:
            return call(handle)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
                raise
    return call(handle)


def _code(error: Exception) -> int:
    """NVMLLibraryMismatchError is no NVMLError: it stands for a function that the driver does not have."""
    return int(getattr(error, "value", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))


def _why(error: Exception) -> str:
    return (
        f"{error} (NVML {_code(error)})" if isinstance(error, pynvml.NVMLError) else f"{type(error).__name__}: {error}"
    )


def _answer(nvml: Nvml, question: int) -> Reading:
    try:
        return {"question": question, "sweep": nvml.sweep(), "leaving": _resident_bytes() > LARGEST_RESIDENT_BYTES}
    except SweepError as error:
        return {"question": question, "sweep": {"error": str(error)}, "leaving": error.leaving}


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _private_stdout() -> BinaryIO:
    """What a driver or a shim prints must not end up between the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the agent decides
    answers, nvml = _private_stdout(), Nvml()
    try:
        while line := sys.stdin.buffer.readline():
            answer = _answer(nvml, int(line))
            answers.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
            answers.flush()
            if answer["leaving"]:
                break
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it leaves already: a second exit looks like trouble
        nvml.close()


if __name__ == "__main__":
    main()
