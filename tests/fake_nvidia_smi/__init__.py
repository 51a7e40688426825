"""A stand-in for nvidia-smi that replays recorded rows; put its `env` into the environment of the collector."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("replaying.py")
EXTRA = {
    "name": "NVIDIA H100 80GB HBM3",
    "driver_version": "590.48.01",
    "mig.mode.current": "Disabled",
    "gpu_recovery_action": "None",
}


@dataclass(frozen=True)
class Answer:
    """What one query prints, in the columns of the cases: see RECORDED in replaying.py."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0
    hang: bool = False


class FakeNvidiaSmi:
    """`gpu` and `apps` answer one query after the other and stay at the last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executable = folder / "nvidia-smi"
        self.env = {"NVIDIA_SMI": str(self.executable)}

    def answer(
        self,
        gpu: Answer | Sequence[Answer],
        apps: Answer = Answer(),
        *,
        extra: Mapping[str, str] = EXTRA,
        unknown_fields: Sequence[str] = (),
    ) -> None:
        gpus = [gpu] if isinstance(gpu, Answer) else gpu
        document = {
            "gpu": [vars(answer) for answer in gpus],
            "compute-apps": [vars(apps)],
            "extra": {**EXTRA, **extra},
            "unknown_fields": list(unknown_fields),
        }
        (self.folder / "asked-gpu").unlink(missing_ok=True)
        new = self.folder / "nvidia-smi.new"
        new.write_text(f"#!{sys.executable} -IS\nANSWERS = {document!a}\n{SCRIPT.read_text()}")
        new.chmod(0o755)
        new.replace(self.executable)
