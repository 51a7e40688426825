"""A fake libnvidia-ml in C for the real nvidia-ml-py: a control file says what it answers, also while it runs."""

import atexit
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.compiler import require_compiler

SOURCE = Path(__file__).with_name("fake_nvml.c")
GIB = 1024**3


@dataclass(frozen=True)
class FakeProcess:
    """`used_bytes` None: the driver says that it is not available."""

    pid: int
    used_bytes: int | None = 0


@dataclass(frozen=True)
class FakeGpu:
    """One idle H100 unless told otherwise. None: the driver has no such thing (mig, recovery, power), or as before.

    `rc` gives the return code of a function by its NVML name, `hang` the functions that do not return. `samples` are
    buffered utilisation samples, all new at every call unless they carry a fixed `sample_time_us`.
    """

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    utilization: int = 0
    utilization_again: int | None = None
    total: int = 80 * GIB
    reserved: int = 501481472
    used: int = 0
    used_v1: int = 501481472
    compute: tuple[FakeProcess, ...] = ()
    graphics: tuple[FakeProcess, ...] = ()
    mps: tuple[FakeProcess, ...] = ()
    mig: bool | None = False
    recovery: int | None = 0
    power: int | None = 70_000
    samples: tuple[int, ...] = ()
    sample_time_us: int | None = None
    rc: Mapping[str, int] = field(default_factory=dict)
    hang: tuple[str, ...] = ()


def fake_uuid(index: int) -> str:
    """A lower-case letter per GPU, as the cases write them."""
    letter = "0123456789abcdef"[(index + 10) % 16]
    return f"GPU-{letter * 8}-{letter * 4}-{letter * 4}-{letter * 4}-{letter * 12}"


@dataclass(frozen=True)
class FakeDriver:
    """What holds for all GPUs.

    `stride` 32 is what drivers 535.43 to 535.86 wrote; `growing`: so many fetches of a list fail; `prints`: a line on
    stdout at nvmlInit, as vGPU shims do.
    """

    version: str = "590.48.01"
    stride: int = 24
    growing: int = 0
    prints: str = ""
    rc: Mapping[str, int] = field(default_factory=dict)
    hang: tuple[str, ...] = ()


class FakeNvml:
    """One machine's driver. `missing` are symbols that the library does not export; they cannot change later."""

    def __init__(
        self, folder: Path, gpus: Iterable[FakeGpu] | int = 1, *, missing: Iterable[str] = (), **driver: object
    ) -> None:
        self.control = folder / "fake_nvml.control"
        self.library = build_library(frozenset(missing))
        self.gpus = [FakeGpu(fake_uuid(index)) for index in range(gpus)] if isinstance(gpus, int) else list(gpus)
        self.driver = replace(FakeDriver(), **driver)  # type: ignore[arg-type]
        self._write()

    @property
    def env(self) -> dict[str, str]:
        """Add it to the environment of the process that loads NVML."""
        path = os.environ.get("LD_LIBRARY_PATH")
        folder = str(self.library.parent)
        return {
            "LD_LIBRARY_PATH": f"{folder}:{path}" if path else folder,
            "FAKE_NVML_CONTROL": str(self.control),
        }

    def set(self, index: int, **changes: object) -> None:
        """Changes one GPU from the next call on."""
        self.gpus[index] = replace(self.gpus[index], **changes)  # type: ignore[arg-type]
        self._write()

    def set_gpus(self, gpus: Iterable[FakeGpu]) -> None:
        """Replaces all GPUs: fewer means that some vanished."""
        self.gpus = list(gpus)
        self._write()

    def set_driver(self, **changes: object) -> None:
        self.driver = replace(self.driver, **changes)  # type: ignore[arg-type]
        self._write()

    def _write(self) -> None:
        lines = [f"driver {self.driver.version}", f"stride {self.driver.stride}", f"growing {self.driver.growing}"]
        lines += [f"prints {self.driver.prints}"] if self.driver.prints else []
        lines += _faults(self.driver)
        for index, gpu in enumerate(self.gpus):
            lines += [f"gpu {index}", *_gpu_lines(gpu), *_faults(gpu)]
        new = self.control.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(self.control)


def _gpu_lines(gpu: FakeGpu) -> list[str]:
    values = {key: getattr(gpu, key) for key in ("uuid", "name", "utilization", "utilization_again", "total")}
    values |= {key: getattr(gpu, key) for key in ("reserved", "used", "used_v1", "recovery", "power", "sample_time_us")}
    values["mig"] = None if gpu.mig is None else int(gpu.mig)
    lines = [f"{key} {value}" for key, value in values.items() if value is not None]
    for kind in ("compute", "graphics", "mps"):
        for process in getattr(gpu, kind):
            lines.append(f"{kind} {process.pid} {'na' if process.used_bytes is None else process.used_bytes}")
    return lines + [f"sample {value}" for value in gpu.samples]


def _faults(of: FakeGpu | FakeDriver) -> list[str]:
    return [f"rc {call} {code}" for call, code in of.rc.items()] + [f"hang {call}" for call in of.hang]


@cache
def build_library(missing: frozenset[str] = frozenset()) -> Path:
    """Compiled once per test run and set of missing symbols, with the system's C compiler."""
    require_compiler()
    folder = Path(mkdtemp(prefix="fake_nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library, hidden = folder / "libnvidia-ml.so.1", folder / "symbols.map"
    local = "".join(f"{symbol}; " for symbol in sorted(missing))
    hidden.write_text(f"{{ global: *; {f'local: {local}' if local else ''}}};\n")
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", f"-Wl,--version-script={hidden}", "-o", str(library), str(SOURCE)], check=True
    )
    return library
