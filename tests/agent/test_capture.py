"""A capture of a node is a recording that is judged as the node was, and that gives nobody away."""

import asyncio
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.capture import Pseudonyms
from agent.collectors.replay import ReplayCollector, read_recording
from agent.read_sample import take_sample
from agent.reading import ProcessView, Sweep
from agent.verdicts import RuleSettings
from tests.agent.build_readings import graphics, idle_gpu, sweep_of, uuid_of
from tests.agent.command import run_command, write_config, write_recording
from tests.agent.nvml_machine import until
from tests.fake_nvml import FakeGpu, FakeNvml, FakeProcess, fake_uuid
from wire.messages import Verdict


def captured(folder: Path, *options: str, **agent: str) -> Path:
    file = folder / "node.jsonl"
    result = run_command("capture", str(file), *options, "--config", str(write_config(folder, **agent)))
    assert result.exit_code == 0, result.output
    return file


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    gpus = [
        FakeGpu(fake_uuid(0), used=1 << 30, compute=(FakeProcess(4321),)),
        FakeGpu(fake_uuid(1), recovery=1),
        FakeGpu(fake_uuid(2)),
    ]
    fake = FakeNvml(tmp_path, gpus)
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    return fake


async def test_a_capture_is_judged_by_replay_as_the_node_was(tmp_path: Path, nvml: FakeNvml) -> None:
    file = await asyncio.to_thread(captured, tmp_path, "--for", "0s")
    (sweep,) = read_recording(file)
    assert sweep.view is not None
    expected = [Verdict.HELD, Verdict.UNKNOWN, Verdict.CANDIDATE]
    if sweep.view.obstacles:  # this machine's own view of processes is part of the recording
        expected = [Verdict.UNKNOWN] * 3
    sample = await take_sample(ReplayCollector(file), None, RuleSettings())
    assert [gpu.verdict for gpu in sample.gpus] == expected


def test_uuids_are_replaced_and_the_file_is_for_its_owner_only(tmp_path: Path, nvml: FakeNvml) -> None:
    file = captured(tmp_path, "--for", "100ms", mode="demo", sample_every="50ms", window="500ms")
    text = file.read_text()
    assert not any(fake_uuid(index) in text for index in range(3))
    sweeps = read_recording(file)
    assert [len(sweep.gpus) for sweep in sweeps] == [3, 3, 3]
    assert len({gpu.uuid for sweep in sweeps for gpu in sweep.gpus}) == 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text.startswith("# A recording of gpu-oncall-agent capture")


def test_a_node_that_cannot_be_read_is_a_capture_too(tmp_path: Path, nvml: FakeNvml) -> None:
    nvml.set_driver(rc={"nvmlInitWithFlags": 9})
    (sweep,) = read_recording(captured(tmp_path, "--for", "0s"))
    assert "Driver Not Loaded" in (sweep.error or "")


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "node.jsonl").write_text("mine")
    result = run_command("capture", str(tmp_path / "node.jsonl"), "--config", str(write_config(tmp_path)))
    assert result.exit_code == 1
    assert "cannot be written: File exists: name a new file" in result.output
    assert (tmp_path / "node.jsonl").read_text() == "mine"


def test_a_length_that_makes_no_sense_is_told_with_one_that_does(tmp_path: Path) -> None:
    result = run_command("capture", str(tmp_path / "node.jsonl"), "--for", "soon")
    assert result.exit_code == 2
    assert "--for wants a duration, for example 60s" in result.output


def test_a_capture_that_a_disk_has_no_room_for_leaves_nothing_behind_and_says_what_to_do(
    tmp_path: Path, nvml: FakeNvml
) -> None:
    command = ["capture", str(tmp_path / "node.jsonl"), "--for", "0s", "--config", str(write_config(tmp_path))]
    before = set(tmp_path.iterdir())
    small = ["prlimit", "--fsize=400", sys.executable, "-m", "agent", *command]  # as on a disk that is full
    done = subprocess.run(small, capture_output=True, text=True, timeout=60, check=False)
    wanted = f"{tmp_path}/node.jsonl cannot be written: File too large: make room there, or name another place\n"
    assert (done.returncode, done.stderr) == (1, wanted)
    assert set(tmp_path.iterdir()) == before


async def test_nobody_finds_half_a_capture_and_ctrl_c_keeps_what_was_read(tmp_path: Path, nvml: FakeNvml) -> None:
    file = tmp_path / "node.jsonl"
    config = write_config(tmp_path, mode="demo", sample_every="50ms", window="500ms")
    command = [sys.executable, "-m", "agent", "capture", str(file), "--for", "1h", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        await until(lambda: any(b"gpus" in draft.read_bytes() for draft in tmp_path.glob(".node.jsonl.*")))
        assert not file.exists()
        running.send_signal(signal.SIGINT)
        try:
            said, _ = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 0
    assert f"{file}: {len(read_recording(file))} readings, 0 of them failed" in said
    assert not list(tmp_path.glob(".node.jsonl.*"))


def test_a_recording_is_not_captured_again(tmp_path: Path) -> None:
    recording = write_recording(tmp_path, sweep_of(idle_gpu(0)))
    config = write_config(tmp_path, collector="replay", replay_file=str(recording))
    assert run_command("capture", str(tmp_path / "new.jsonl"), "--config", str(config)).exit_code == 2
    assert not (tmp_path / "new.jsonl").exists()


def test_only_programs_that_a_setting_names_are_in_it() -> None:
    view = ProcessView(programs={7: "Xorg", 8: "secret-project"})
    sweep = replace(sweep_of(idle_gpu(0, graphics=graphics(7, 8))), view=view)
    line = Pseudonyms().line(sweep, frozenset({"Xorg"}))
    assert b"Xorg" in line
    assert b"secret" not in line


def test_a_uuid_in_an_error_is_replaced_by_the_same_name_as_elsewhere() -> None:
    names = Pseudonyms()
    first = names.line(sweep_of(idle_gpu(1)), frozenset())
    second = names.line(Sweep(error=f"a GPU that is not of this node: {uuid_of(1).upper()}"), frozenset())
    assert uuid_of(1).encode() not in first
    assert b"GPU-00000000-0000-4000-8000-000000000000" in first
    assert b"node: GPU-00000000-0000-4000-8000-000000000000" in second
