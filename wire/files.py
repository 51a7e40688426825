"""Files that are written whole or not at all; most of them only their owner may read."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOM = "make room there, or name another place"
_WHAT_TO_DO = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EFBIG: ROOM,
    errno.ENOENT: "name a place that is there",
    errno.ENOTDIR: "name a place that is a folder",
    errno.EEXIST: "name a new file",
    errno.EROFS: "name a place that is not read-only",
}
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)


def write_private(path: Path, text: str) -> None:
    """Mode 0600, by rename, on disk when it returns; by root, for the folder's owner. Raises OSError."""
    with _draft(path, is_folders=True) as draft:
        draft.write_text(text, encoding="utf-8")


def write_readable(path: Path, text: str, *, survives_power_cut: bool = True) -> None:
    """The same with mode 0644, for what is no secret and what others write or read, too; raises OSError."""
    with _draft(path, is_folders=True, survives_power_cut=survives_power_cut) as draft:
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o644)


@contextlib.contextmanager
def new_private_file(path: Path) -> Iterator[Path]:
    """The draft of a file that must not exist yet: whole, on disk and mode 0600 when the block ends; raises OSError."""
    _require_new(path)
    with _draft(path) as draft:
        yield draft
        _require_new(path)


def unwritten(error: OSError, who: str = "a user who may write there") -> str:
    """What could not be written, why, and what to do about it; `who` may."""
    todo = f"run this as {who}" if error.errno in _NOT_ALLOWED else _WHAT_TO_DO.get(error.errno or 0)
    said = f"{error.filename} cannot be written: {error.strerror}"
    return f"{said}: {todo}" if todo else said


def give_to_owner(path: Path, folder: Path) -> None:
    """What root makes at the terminal must stay of use to the user whose folder it is; raises OSError."""
    owner, present = folder.stat(), path.lstat()
    if os.geteuid() == 0 and (present.st_uid, present.st_gid) != (owner.st_uid, owner.st_gid):
        with contextlib.suppress(PermissionError):  # root of a container may lack that right
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)  # that user may have made a link of it


@contextlib.contextmanager
def _draft(path: Path, *, is_folders: bool = False, survives_power_cut: bool = True) -> Iterator[Path]:
    """Beside it and hidden; what fails leaves nothing behind, and its error names the file that was wanted."""
    draft: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
        draft = Path(name)
        if is_folders:
            give_to_owner(draft, path.parent)
        os.close(handle)
        yield draft
        if survives_power_cut:
            _sync(draft, os.O_RDWR)
        draft.replace(path)
        if survives_power_cut:
            _sync(path.parent, os.O_RDONLY)  # without it a power cut can undo the rename
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def _require_new(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
