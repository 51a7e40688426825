"""Files that only their owner may read, written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Mode 0600, by rename, on disk when it returns; raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
        _sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def give_to_owner(path: Path, folder: Path) -> None:
    """What root writes at the terminal must stay readable for the user whose folder it is; raises OSError."""
    owner = folder.stat()
    if os.geteuid() == 0 and (path.stat().st_uid, path.stat().st_gid) != (owner.st_uid, owner.st_gid):
        os.chown(path, owner.st_uid, owner.st_gid)


def _sync_folder(folder: Path) -> None:
    """Without it a power cut can undo the rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
