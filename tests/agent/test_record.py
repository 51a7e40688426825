"""The node's own record: readable lines, rotated files, and a line that a crash cut stays alone."""

import json

import pytest

from agent.record import Record
from tests import build
from wire.messages import Verdict
from wire.reasons import Reason, ReasonCode


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_gpu_of_a_window_is_a_line_with_what_was_seen(tmp_path):
    Record(tmp_path, 10_000, 3).write(build.observation(verdicts=[Verdict.CANDIDATE, Verdict.HELD]))
    idle, held = read(tmp_path / "windows.jsonl")
    assert (idle["node"], idle["gpu"], idle["uuid"]) == ("gpu-01", 0, build.gpu_uuid(0))
    assert (idle["verdict"], idle["utilization_max_percent"], idle["memory_max_bytes"]) == ("candidate", 0, 0)
    assert held["verdict"] == "held"
    assert held["reasons"] == [{"code": "memory_held", "detail": "4294967296"}]
    assert held["processes"] == [{"pid": 4321, "user": "alice", "command": "python train.py"}]
    assert held["time"] == "2026-11-30T00:05:00Z"
    assert held["window"] == build.FIRST_WINDOW


def test_what_was_not_read_is_missing_and_not_0(tmp_path):
    gpu = build.gpu_window(Verdict.UNKNOWN, utilization_max_percent=None, memory_max_bytes=None)
    Record(tmp_path, 10_000, 3).write(build.observation(gpus=[gpu]))
    [line] = read(tmp_path / "windows.jsonl")
    assert "utilization_max_percent" not in line
    assert "memory_max_bytes" not in line


def test_a_window_without_any_gpu_is_a_line_with_the_error(tmp_path):
    error = Reason(ReasonCode.SAMPLE_ERROR, "hangs")
    Record(tmp_path, 10_000, 3).write(build.observation(gpus=[], errors=[error]))
    [line] = read(tmp_path / "windows.jsonl")
    assert (line["verdict"], line["reasons"]) == ("unknown", [{"code": "sample_error", "detail": "hangs"}])


def test_files_rotate_so_that_the_newest_lines_stay(tmp_path):
    record = Record(tmp_path, 1000, 3)
    for number in range(20):
        record.write(build.observation(1000 + number))
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["windows.jsonl", "windows.jsonl.1", "windows.jsonl.2"]
    assert all(path.stat().st_size <= 1000 for path in files)
    numbers = [line["window"] for path in reversed(files) for line in read(path)]
    assert numbers == list(range(1020 - len(numbers), 1020))
    assert len(numbers) > 4


def test_with_a_single_file_the_older_lines_go(tmp_path):
    record = Record(tmp_path, 1000, 1)
    for number in range(20):
        record.write(build.observation(1000 + number))
    assert [path.name for path in tmp_path.iterdir()] == ["windows.jsonl"]
    assert read(tmp_path / "windows.jsonl")[-1]["window"] == 1019


def test_a_line_that_a_crash_cut_does_not_spoil_the_next_one(tmp_path):
    path = tmp_path / "windows.jsonl"
    path.write_text('{"time": "2026-')
    Record(tmp_path, 10_000, 3).write(build.observation())
    cut, whole = path.read_text().splitlines()
    assert cut == '{"time": "2026-'
    assert json.loads(whole)["verdict"] == "candidate"


def test_a_disk_that_refuses_raises(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        Record(tmp_path / "missing", 10_000, 3).write(build.observation())
