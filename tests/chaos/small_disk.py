"""A small disk that a test can fill, where this machine lets us mount one."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_CHUNK = bytes(64 * 1024)


@contextlib.contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[bool]:
    """Mounts it on `folder`; False: this machine lets nobody mount, and the folder is as before."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={mebibytes}m,mode=0711"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Until not one more byte goes in."""
    with (folder / "ballast").open("ab", buffering=0) as file:
        for size in (len(_CHUNK), 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(_CHUNK[:size]):
                    pass


def empty(folder: Path) -> None:
    (folder / "ballast").unlink(missing_ok=True)
