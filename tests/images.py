"""Images without a container engine: built by buildah, their root file system entered by chroot as the image says."""

import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PACKAGES = ("python3", "python3-venv", "ca-certificates")
BASE = "localhost/base"

# Read-only but for `state`, without capabilities and without a way to get any; processes and network are the host's.
_ENTER = """\
set -e
mount --bind "$ROOTFS" "$ROOTFS"
mount --bind "$STATE" "$ROOTFS$STATE_AT"
mount --bind "$CONFIG" "$ROOTFS/etc/gpu-oncall"
mount -t proc proc "$ROOTFS/proc"
mount --rbind /dev "$ROOTFS/dev"
mount -o remount,bind,ro "$ROOTFS"
exec chroot "$ROOTFS" /usr/bin/env -i PATH="$IMAGE_PATH" \
    setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all "$@"
"""


def require_tools(*tools: str) -> None:
    """Skips the test with a reason that nobody overlooks."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"NO {', '.join(missing) or 'ROOT'}: the real thing is NOT BUILT and NOT STARTED here")


def debian(root: Path, *packages: str) -> None:
    """Debian with Python from its archive, and this machine's way to a package index, in a folder."""
    include = ",".join((*PACKAGES, *packages))
    run("debootstrap", "--variant=minbase", f"--include={include}", "bookworm", root, MIRROR)
    authorities = ssl.get_default_verify_paths().cafile or ""
    if Path(authorities).is_file():
        shutil.copy(authorities, root / "etc/ssl/certs/ca-certificates.crt")
    (root / "etc/pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")


def run(*command: str | Path, seconds: float = 600, **more: Any) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=seconds, check=False, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@dataclass(frozen=True)
class Image:
    config: Mapping[str, Any]
    size_bytes: int
    rootfs: Path

    def command(self, config: Path, state: Path, state_at: str, arguments: Sequence[str] | None = None) -> list[str]:
        """The entrypoint as a container would start it, with its own command where `arguments` is None."""
        words = [*self.config["Entrypoint"], *(self.config["Cmd"] if arguments is None else arguments)]
        return self.inside(config, state, state_at, words)

    def inside(self, config: Path, state: Path, state_at: str, words: Sequence[str]) -> list[str]:
        """Any command inside. `config` is a folder, and `state` one that belongs to user 10001."""
        variables = dict(one.split("=", 1) for one in self.config["Env"])
        given = {"ROOTFS": self.rootfs, "STATE": state, "STATE_AT": state_at, "CONFIG": config}
        assignments = [f"{name}={value}" for name, value in {**given, "IMAGE_PATH": variables["PATH"]}.items()]
        return ["env", *assignments, "unshare", "--mount", "sh", "-c", _ENTER, "sh", *words]


class Builder:
    """Keeps all its storage under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        storage = ["--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs"]
        self._buildah = ["buildah", *map(str, storage)]

    def base(self) -> int:
        """Gives its size in bytes."""
        folder = self.folder / "base"
        folder.mkdir()
        debian(self.folder / "root")
        run("tar", "-C", self.folder / "root", "-cf", folder / "base.tar", ".")
        shutil.rmtree(self.folder / "root")
        (folder / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        self._build(folder, BASE)
        return self._size_bytes(BASE)

    def target(self, name: str, **arguments: str) -> Image:
        """One target of the Dockerfile, from the checkout. `arguments` are build arguments."""
        build = [f"--build-arg={key}={value}" for key, value in {"BASE": BASE, **arguments}.items()]
        tag = "-".join((f"localhost/{name}", *arguments.values()))
        self._build(ROOT, tag, f"--target={name}", *build)
        container = run(*self._buildah, "from", "--pull-never", tag).strip()
        rootfs = Path(run(*self._buildah, "mount", container).strip())
        inspected = json.loads(run(*self._buildah, "inspect", "--type", "image", tag))
        (rootfs / "etc/gpu-oncall").mkdir(exist_ok=True)  # what an engine makes for a volume
        return Image(inspected["Docker"]["config"], self._size_bytes(tag), rootfs)

    def _build(self, context: Path, tag: str, *options: str) -> None:
        fixed = ["--format=docker", "--isolation=chroot", "--pull-never"]
        run(*self._buildah, "build", *fixed, *options, "-t", tag, context)

    def _size_bytes(self, tag: str) -> int:
        listed = json.loads(run(*self._buildah, "images", "--json", tag))
        return round(float(listed[0]["size"].split()[0]) * {"MB": 1e6, "GB": 1e9}[listed[0]["size"].split()[1]])
