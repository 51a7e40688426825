"""Files that are there whole or not at all, and errors that say what to do."""

import contextlib
import errno
import os
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner

from bot.__main__ import cli
from tests.root import only_root
from wire.files import give_to_owner, new_private_file, unwritten, write_private, write_readable

SOMEBODY = 12345


def test_a_private_file_is_for_its_owner_and_replaces_the_one_before(tmp_path):
    path = tmp_path / "key"
    for text in ("one", "two"):
        write_private(path, text)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("two", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@only_root
@pytest.mark.parametrize("write", [write_private, write_readable])
def test_what_root_writes_belongs_to_the_user_whose_folder_it_is(tmp_path, write):
    os.chown(tmp_path, SOMEBODY, SOMEBODY)
    write(tmp_path / "key", "new")
    assert ((tmp_path / "key").stat().st_uid, (tmp_path / "key").stat().st_gid) == (SOMEBODY, SOMEBODY)


@only_root
def test_a_link_in_a_users_folder_gives_away_no_file_of_root(tmp_path):
    (folder := tmp_path / "users").mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)
    (tmp_path / "secret").touch()
    (folder / "link").symlink_to(tmp_path / "secret")
    give_to_owner(folder / "link", folder)
    assert (tmp_path / "secret").stat().st_uid == 0


def test_a_new_file_is_not_there_before_it_is_whole(tmp_path):
    path = tmp_path / "backup"
    with new_private_file(path) as draft:
        draft.write_text("all of it")
        assert not path.exists()
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("all of it", 0o600)


def test_what_fails_in_the_middle_leaves_nothing(tmp_path):
    with contextlib.suppress(KeyboardInterrupt), new_private_file(tmp_path / "backup") as draft:
        draft.write_text("half of it")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("comes", ["before", "meanwhile"])
def test_a_file_of_somebody_else_is_never_replaced(tmp_path, comes):
    path = tmp_path / "backup"
    if comes == "before":
        path.write_text("mine")
    with pytest.raises(FileExistsError) as caught, new_private_file(path):
        path.write_text("mine")
    assert unwritten(caught.value) == f"{path} cannot be written: File exists: name a new file"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("backup", "mine")]


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        (errno.ENOSPC, "No space left on device: make room there, or name another place"),
        (errno.EACCES, "Permission denied: run this as root"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_an_error_names_the_file_that_was_wanted_and_what_to_do(tmp_path, number, todo):
    with pytest.raises(OSError, match="key") as caught, new_private_file(tmp_path / "key"):
        raise OSError(number, os.strerror(number))
    assert unwritten(caught.value, "root") == f"{tmp_path}/key cannot be written: {todo}"


@pytest.mark.parametrize("command", [["bot", "slack", "manifest"], ["agent", "once", "--fixture"]])
def test_a_full_disk_behind_the_output_is_one_sentence(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode != 0
    assert done.stderr.startswith("Error: not everything could be written: No space left on device: make room there")
    assert "Traceback" not in done.stderr


def test_an_error_of_another_kind_is_still_seen(monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "of ours")

    monkeypatch.setitem(cli.commands, "run", cli.commands["run"].__class__("run", callback=broken))
    assert isinstance(CliRunner().invoke(cli, ["run"]).exception, OSError)
