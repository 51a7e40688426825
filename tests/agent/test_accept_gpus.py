"""`gpu-oncall-agent accept-gpus`: only a person may shrink the known set."""

from pathlib import Path

import pytest

from agent.known_gpus import FILE_NAME, KnownGpus
from tests.agent.command import run_command, write_config
from tests.fake_nvml import FakeNvml, fake_uuid
from tests.full_disk import no_file_larger_than


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(tmp_path, 3)
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    return fake


def known(folder: Path) -> list[str]:
    return list(KnownGpus(folder / "state").load())


def accept(folder: Path, *arguments: str) -> tuple[int, str]:
    result = run_command("accept-gpus", "--config", str(write_config(folder)), *arguments)
    return result.exit_code, result.output


def test_a_card_that_was_taken_out_is_accepted_when_a_person_says_so(tmp_path: Path, fake: FakeNvml) -> None:
    assert accept(tmp_path, "--yes")[0] == 0
    fake.set_gpus(fake.gpus[:2])
    status, said = accept(tmp_path, "--yes")
    assert status == 0
    assert f"gone: {fake_uuid(2)} (was index 2" in said
    assert known(tmp_path) == [fake_uuid(0), fake_uuid(1)]


def test_without_a_yes_nothing_changes(tmp_path: Path, fake: FakeNvml) -> None:
    accept(tmp_path, "--yes")
    fake.set_gpus(fake.gpus[:1])
    assert accept(tmp_path)[0] == 1
    assert len(known(tmp_path)) == 3


def test_the_same_gpus_are_nothing_to_do(tmp_path: Path, fake: FakeNvml) -> None:
    accept(tmp_path, "--yes")
    status, said = accept(tmp_path)
    assert status == 0
    assert "Nothing to do" in said


def test_a_failed_reading_accepts_nothing(tmp_path: Path, fake: FakeNvml) -> None:
    accept(tmp_path, "--yes")
    fake.set_driver(rc={"nvmlInitWithFlags": 9})
    status, said = accept(tmp_path, "--yes")
    assert status == 3
    assert "Nothing was changed" in said
    assert len(known(tmp_path)) == 3


def test_a_damaged_file_is_replaced(tmp_path: Path, fake: FakeNvml) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / FILE_NAME).write_text("{")
    assert accept(tmp_path, "--yes")[0] == 0
    assert len(known(tmp_path)) == 3


def test_a_recording_is_not_this_nodes_gpus(tmp_path: Path) -> None:
    config = write_config(tmp_path, collector="replay", replay_file=str(tmp_path / "x.jsonl"))
    assert run_command("accept-gpus", "--yes", "--config", str(config)).exit_code == 2


def test_a_state_dir_that_cannot_be_written_is_told(tmp_path: Path, fake: FakeNvml) -> None:
    (tmp_path / "state").symlink_to(tmp_path / "nowhere/at/all")
    status, said = accept(tmp_path, "--yes")
    assert status == 1
    assert "cannot be written" in said


def test_a_full_disk_is_no_question_of_who_asks_and_leaves_the_file_as_it_was(tmp_path: Path, fake: FakeNvml) -> None:
    accept(tmp_path, "--yes")
    fake.set_gpus(fake.gpus[:1])
    config = write_config(tmp_path)
    with no_file_larger_than(0):
        result = run_command("accept-gpus", "--config", str(config), "--yes")
    assert result.exit_code == 1
    assert f"{FILE_NAME} cannot be written: File too large: make room there" in result.output
    assert [path.name for path in (tmp_path / "state").iterdir()] == [FILE_NAME]
    assert len(known(tmp_path)) == 3
