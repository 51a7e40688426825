"""Whole files of /proc, whatever is in them."""

import os
from pathlib import Path

import pytest

from agent.proc_files import read_proc


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 200_000])
def test_a_file_of_any_length_is_read_to_its_end(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * size)
    assert read_proc(str(tmp_path / "file")) == "x" * size


def test_bytes_that_are_no_text_are_replaced_and_no_handle_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xffb")
    before = len(os.listdir("/proc/self/fd"))
    assert read_proc(str(tmp_path / "file")) == "a\ufffdb"
    with pytest.raises(FileNotFoundError):
        read_proc(str(tmp_path / "none"))
    with pytest.raises(IsADirectoryError):
        read_proc(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
