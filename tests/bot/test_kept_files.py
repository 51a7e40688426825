"""Files of a folder are read once, and again whenever they may have changed."""

import os
from datetime import timedelta

import pytest

from bot import clock
from bot.broker.kept_files import SETTLED_SECONDS, KeptFiles


@pytest.fixture
def later(monkeypatch):
    """Nothing was written just now."""
    now, by = clock.now, timedelta(seconds=2 * SETTLED_SECONDS)
    monkeypatch.setattr(clock, "now", lambda: now() + by)


class Reader:
    def __init__(self):
        self.read = []

    def __call__(self, file):
        self.read.append(file.name)
        try:
            return file.read_text()
        except OSError:
            return None

    def since(self):
        read, self.read = self.read, []
        return read


def of(folder):
    reader = Reader()
    return KeptFiles(folder, ".pub", reader), reader


def test_a_file_is_read_once_and_again_when_it_changed_in_any_way(tmp_path, later):
    for name in ("b.pub", "a.pub", "c.join"):
        (tmp_path / name).write_text("old")
    files, reader = of(tmp_path)
    assert (list(files.values().items()), reader.since()) == ([("a", "old"), ("b", "old")], ["a.pub", "b.pub"])
    assert (files.values(), reader.since()) == ({"a": "old", "b": "old"}, [])
    before = (tmp_path / "a.pub").stat()
    with (tmp_path / "a.pub").open("r+") as file:  # in place, as an editor may, and as if it had not been touched
        file.write("new")
    os.utime(tmp_path / "a.pub", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (files.values(), reader.since()) == ({"a": "new", "b": "old"}, ["a.pub"])
    (tmp_path / "new").write_text("NEW")
    (tmp_path / "new").rename(tmp_path / "b.pub")
    (tmp_path / "a.pub").unlink()
    assert (files.values(), reader.since()) == ({"b": "NEW"}, ["b.pub"])
    assert (files.values(), reader.since()) == ({"b": "NEW"}, [])


def test_what_was_written_just_now_is_read_again_since_time_stamps_are_coarse(tmp_path):
    (tmp_path / "a.pub").write_text("1")
    files, reader = of(tmp_path)
    assert files.values() == files.values() == {"a": "1"}
    assert reader.since() == ["a.pub", "a.pub"]


def test_what_cannot_be_read_is_left_out_and_tried_again(tmp_path, later):
    (tmp_path / "a.pub").symlink_to(tmp_path / "nowhere")
    files, reader = of(tmp_path)
    assert (files.values(), files.values(), reader.since()) == ({}, {}, ["a.pub", "a.pub"])
    (tmp_path / "nowhere").write_text("here")
    assert files.values() == {"a": "here"}


def test_no_folder_holds_no_files_and_one_that_cannot_be_read_says_so(tmp_path):
    assert of(tmp_path / "nodes")[0].values() == {}
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        of(tmp_path / "file")[0].values()
