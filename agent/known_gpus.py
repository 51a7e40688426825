"""The GPUs that this node had before, on disk: one that is missing is an error, never silence."""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

from agent.reading import GpuReading, KnownGpu
from wire.files import write_readable

FILE_NAME = "known_gpus.json"

_log = logging.getLogger(__name__)


class KnownGpusError(Exception):
    """The file exists and cannot be used; the text says what to do."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    gpus: dict[str, KnownGpu]


class KnownGpus:
    """The known set of one node, by UUID. Nothing leaves it but by `replace_all`, which a person asks for."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FILE_NAME
        self._not_saved: dict[str, KnownGpu] = {}
        self._read: dict[str, KnownGpu] = {}
        self._read_as: tuple[int, int, int] | None = None

    def load(self) -> dict[str, KnownGpu]:
        """Looked at anew at each call, as `accept-gpus` may have written it; raises KnownGpusError."""
        return {**self._on_disk(), **self._not_saved}

    def remember(self, readings: Iterable[GpuReading]) -> None:
        """Adds what was read. Where the disk refuses, it is kept in memory and tried again; raises KnownGpusError."""
        on_disk = self._on_disk()
        before = {**on_disk, **self._not_saved}
        wanted = {**before, **_named(_by_uuid(readings), before)}
        if wanted == on_disk:
            self._not_saved = {}
            return
        try:
            self._save(wanted)
        except OSError as error:
            if not self._not_saved:
                _log.warning("cannot write the known GPUs, keeping them in memory path=%s error=%s", self.path, error)
            self._not_saved = {uuid: gpu for uuid, gpu in wanted.items() if on_disk.get(uuid) != gpu}
        else:
            self._not_saved = {}
            _log.info("known GPUs written path=%s gpus=%d", self.path, len(wanted))

    def replace_all(self, readings: Iterable[GpuReading]) -> None:
        """Makes the known set exactly what was read; raises OSError."""
        self._save(_by_uuid(readings))
        self._not_saved = {}

    def _on_disk(self) -> dict[str, KnownGpu]:
        try:
            status = self.path.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if version != self._read_as:
                self._read = msgspec.json.decode(self.path.read_bytes(), type=_File).gpus
                self._read_as = version
            return self._read
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise KnownGpusError(
                f"{self.path} cannot be read ({error.strerror}), so which GPUs this node had is not known: "
                "run this as the agent's user or as root"
            ) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise KnownGpusError(
                f"{self.path} is damaged ({error}), so which GPUs this node had is not known: "
                "when all its GPUs are there, run `gpu-oncall-agent accept-gpus`"
            ) from error

    def _save(self, gpus: dict[str, KnownGpu]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_readable(self.path, msgspec.json.format(msgspec.json.encode(_File(1, gpus))).decode() + "\n")


def _by_uuid(readings: Iterable[GpuReading]) -> dict[str, KnownGpu]:
    return {gpu.uuid: KnownGpu(gpu.index, gpu.model) for gpu in readings}


def _named(now: dict[str, KnownGpu], before: dict[str, KnownGpu]) -> dict[str, KnownGpu]:
    """A GPU that is lost may not tell its model any more."""
    models = {uuid: gpu.model or before.get(uuid, gpu).model for uuid, gpu in now.items()}
    return {uuid: KnownGpu(gpu.index, models[uuid]) for uuid, gpu in now.items()}
