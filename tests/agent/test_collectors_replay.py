"""Recordings: what a line is, what a bad one says, and the documented example."""

import os
from pathlib import Path

import msgspec
import pytest

from agent.collectors import COLLECTORS, replay
from agent.collectors.replay import FixtureCollector, ReplayCollector
from agent.config import AgentConfig
from agent.reading import ProcessView, Sweep, Unreadable
from agent.verdicts import RuleSettings, judge_sweep
from tests.agent.build_readings import GOOD_VIEW, compute, idle_gpu, sweep_of
from wire.messages import Verdict


def record(file: Path, *sweeps: Sweep) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(b"# a comment\n\n" + b"".join(msgspec.json.encode(sweep) + b"\n" for sweep in sweeps))
    new.replace(file)


async def test_a_recording_is_replayed_line_by_line_and_from_the_first_again(tmp_path: Path) -> None:
    sweeps = [
        sweep_of(idle_gpu(0)),
        Sweep(error="nvidia-smi did not answer"),
        sweep_of(idle_gpu(0, compute=compute(5), memory_used_bytes=Unreadable("[N/A]"))),
    ]
    record(tmp_path / "recording.jsonl", *sweeps)
    collector = ReplayCollector(tmp_path / "recording.jsonl")
    replayed = [await collector.sweep() for _ in range(4)]
    assert [(sweep.gpus, sweep.error) for sweep in replayed] == [(s.gpus, s.error) for s in [*sweeps, sweeps[0]]]


async def test_a_changed_recording_is_read_anew_from_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    record(file, sweep_of(idle_gpu(0)), Sweep(error="second"))
    collector = ReplayCollector(file)
    assert (await collector.sweep()).error is None
    record(file, Sweep(error="new first"), Sweep(error="new second"))
    assert [(await collector.sweep()).error for _ in range(2)] == ["new first", "new second"]


async def test_the_process_view_of_a_recording_is_its_own(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    hidden = ProcessView(obstacles=("a container",))
    record(file, sweep_of(idle_gpu(0)), msgspec.structs.replace(sweep_of(idle_gpu(0)), view=hidden))
    collector = ReplayCollector(file)
    assert [(await collector.sweep()).view for _ in range(2)] == [ProcessView(), hidden]


BAD_LINES = [
    b"{",
    b"[]",
    b'{"gpus": [{"index": 0}]}',
    b'{"gpus": [], "surprise": 1}',
    b'{"gpus": [{"index": 0, "uuid": "GPU-x", "utilization_percent": "0", "memory_used_bytes": 0, "compute": [], '
    b'"graphics": [], "utilization_again_percent": 0}]}',
    b"\xff",
]


@pytest.mark.parametrize("line", BAD_LINES)
async def test_a_bad_line_is_an_error_that_names_it(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_bytes(b'{"error": "first"}\n' + line + b"\n")
    assert f"{file}, line 2: not a recorded sweep" in ((await ReplayCollector(file).sweep()).error or "")


async def test_no_recording_or_an_empty_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("# nothing\n")
    for file, said in [
        (None, "agent.replay_file"),
        (tmp_path / "missing.jsonl", "No such file"),
        (tmp_path / "empty.jsonl", "holds no sweep"),
    ]:
        assert said in ((await ReplayCollector(file).sweep()).error or "")


async def test_a_recording_that_became_bad_stays_an_error(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    record(file, sweep_of(idle_gpu(0)))
    collector = ReplayCollector(file)
    assert (await collector.sweep()).error is None
    file.write_text("{\n")
    os.utime(file, (1, 1))
    assert all([(await collector.sweep()).error for _ in range(2)])


async def test_the_example_has_exactly_one_candidate() -> None:
    sample = judge_sweep(await FixtureCollector().sweep(), GOOD_VIEW, {}, RuleSettings())
    assert [gpu.verdict for gpu in sample.gpus] == [Verdict.CANDIDATE, Verdict.HELD, Verdict.HELD]
    assert [(gpu.utilization_percent, gpu.memory_used_bytes) for gpu in sample.gpus] == [
        (0, 0),
        (18, 4096 << 20),
        (0, 0),
    ]
    assert [[process.pid for process in gpu.processes or ()] for gpu in sample.gpus] == [[], [4321], [9876]]


def test_every_collector_of_the_table_can_be_made_and_carries_its_name() -> None:
    for name, make in COLLECTORS.items():
        assert make(AgentConfig()).name == name


def test_a_sweep_survives_being_recorded() -> None:
    assert msgspec.json.decode(msgspec.json.encode(replay.FIXTURE), type=Sweep) == replay.FIXTURE
