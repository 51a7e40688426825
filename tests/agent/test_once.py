"""`gpu-oncall-agent once`: what a person and a script get."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.clock import Clock
from agent.known_gpus import KnownGpus
from agent.once import as_text
from agent.reading import Sweep, Unreadable
from agent.verdicts import GpuSample, Sample
from tests.agent.build_readings import MIB, compute, idle_gpu, sweep_of, uuid_of
from tests.agent.command import run_command, write_config, write_recording
from tests.fake_kubelet import FakeKubelet, device, pod
from tests.fake_nvml import FakeNvml, FakeProcess, fake_uuid
from wire.messages import Allocation, AllocationState, Process, Verdict
from wire.reasons import Reason, ReasonCode


def recorded(folder: Path, sweep: Sweep) -> list[str]:
    recording = write_recording(folder, sweep)
    return ["--config", str(write_config(folder, collector="replay", replay_file=str(recording)))]


def test_the_example_as_json_has_the_documented_form(tmp_path: Path) -> None:
    before = Clock().wall()
    result = run_command("once", "--fixture", "--json", "--config", str(write_config(tmp_path)))
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert list(document) == ["node", "observed_at", "errors", "gpus"]
    assert (document["node"], document["errors"]) == ("gpu-01", [])
    assert abs((datetime.fromisoformat(document["observed_at"]) - before).total_seconds()) < 60
    assert document["gpus"][1] == {
        "index": 1,
        "uuid": fake_uuid(1),
        "utilization_percent": 18,
        "memory_used_bytes": 4096 * MIB,
        "processes": [{"pid": 4321, "used_memory_bytes": 4096 * MIB}],
        "power_milliwatts": None,
        "allocation": None,
        "verdict": "held",
        "reasons": [
            "utilization: utilisation was 18 %",
            f"memory_held: {4096 * MIB} bytes of memory are in use",
            "compute_process: a compute process is listed: PID 4321",
        ],
    }
    assert [gpu["verdict"] for gpu in document["gpus"]] == ["candidate", "held", "held"]
    assert [[process["pid"] for process in gpu["processes"]] for gpu in document["gpus"]] == [[], [4321], [9876]]


def test_the_example_as_text_is_a_line_per_gpu_with_the_verdict_in_words(tmp_path: Path) -> None:
    result = run_command("once", "--fixture", "--config", str(write_config(tmp_path)))
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert [re.split(" {2,}", line)[2] for line in lines[2:]] == ["candidate (idle)", "held (in use)", "held (in use)"]
    assert "PID 9876" in lines[4]


def test_a_recording_is_not_taken_for_this_nodes_gpus(tmp_path: Path) -> None:
    live, recording = "A GPU is called free only after 3 windows", "which say nothing of this node's GPUs"
    for options in (
        ["--fixture", *recorded(tmp_path, sweep_of(idle_gpu(0)))],
        recorded(tmp_path, sweep_of(idle_gpu(0))),
    ):
        first = run_command("once", *options).stdout.splitlines()[0]
        assert recording in first
        assert live not in first
    assert live in as_text("gpu-01", Sample(()))


def test_the_example_needs_no_config_and_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPU_ONCALL_CONFIG", raising=False)
    assert run_command("once", "--fixture").exit_code == 0


def test_what_was_not_read_is_null_and_never_0(tmp_path: Path) -> None:
    no = Unreadable("[N/A]")
    gpu = idle_gpu(
        0,
        utilization_percent=no,
        utilization_again_percent=no,
        recent_peak_percent=None,
        memory_used_bytes=no,
        compute=no,
    )
    result = run_command("once", "--json", *recorded(tmp_path, sweep_of(gpu)))
    (shown,) = json.loads(result.stdout)["gpus"]
    assert [shown[key] for key in ("utilization_percent", "memory_used_bytes", "processes")] == [None, None, None]
    assert shown["verdict"] == "unknown"
    text = run_command("once", *recorded(tmp_path, sweep_of(gpu))).stdout
    assert text.count("not read") == 3


def test_a_failed_sample_ends_with_status_3_and_says_why(tmp_path: Path) -> None:
    options = recorded(tmp_path, Sweep(error="nvidia-smi did not answer"))
    as_json = run_command("once", "--json", *options)
    assert as_json.exit_code == 3
    assert json.loads(as_json.stdout)["errors"] == ["sample_error: the reading failed: nvidia-smi did not answer"]
    as_text = run_command("once", *options)
    assert as_text.exit_code == 3
    assert "Nothing is concluded for any GPU." in as_text.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--collector", "guess"],
        ["--config", "/nonexistent/config.yaml"],
        ["--surprise"],
    ],
)
def test_wrong_usage_ends_with_status_2(arguments: list[str]) -> None:
    assert run_command("once", *arguments).exit_code == 2


def test_a_mistake_in_the_config_ends_with_status_2_and_names_the_key(tmp_path: Path) -> None:
    result = run_command("once", "--config", str(write_config(tmp_path, sample_evry="10s")))
    assert result.exit_code == 2
    assert "sample_evry" in result.stderr


def test_the_real_collector_is_used_and_the_state_dir_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeNvml(tmp_path, 2)
    fake.set(1, used=4096, compute=(FakeProcess(4194303),))
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    result = run_command("once", "--json", "--config", str(write_config(tmp_path)))
    gpus = json.loads(result.stdout)["gpus"]
    assert result.exit_code == 0
    assert [(gpu["uuid"], gpu["memory_used_bytes"]) for gpu in gpus] == [(fake_uuid(0), 0), (fake_uuid(1), 4096)]
    assert gpus[1]["processes"] == [{"pid": 4194303, "used_memory_bytes": 0}]
    assert not (tmp_path / "state").exists()


def test_a_known_gpu_that_is_missing_makes_the_sample_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FakeNvml(tmp_path, 1).env.items():
        monkeypatch.setenv(name, value)
    KnownGpus(tmp_path / "state").replace_all([idle_gpu(0, uuid=fake_uuid(0)), idle_gpu(1)])
    result = run_command("once", "--json", "--config", str(write_config(tmp_path)))
    assert result.exit_code == 3
    assert uuid_of(1) in json.loads(result.stdout)["errors"][0]


def test_a_baseline_of_the_config_counts(tmp_path: Path) -> None:
    gpu = replace(idle_gpu(0), memory_used_bytes=4 * MIB)
    recording = write_recording(tmp_path, sweep_of(gpu))
    line = '{"NVIDIA H100 80GB HBM3": 4194304, driver: "590.48.01"}'
    config = write_config(tmp_path, collector="replay", replay_file=str(recording), idle_memory_bytes=line)
    gpus = json.loads(run_command("once", "--json", "--config", str(config)).stdout)["gpus"]
    assert gpus[0]["verdict"] == "candidate"


def test_foreign_names_cannot_write_to_the_terminal() -> None:
    process = Process(5, user="\x1b[2J", command="a\nGPU 0 candidate")
    why = (Reason(ReasonCode.COMPUTE_PROCESS, "5"),)
    sample = Sample((GpuSample(0, uuid_of(0), None, Verdict.HELD, why, 0, 1, (process,)),))
    lines = as_text("gpu-01", sample).splitlines()
    assert len(lines) == 3
    assert "\x1b" not in lines[2]


def test_many_processes_are_counted_and_memory_is_never_rounded_to_0(tmp_path: Path) -> None:
    gpu = idle_gpu(0, compute=compute(*range(1, 8)), memory_used_bytes=65536)
    text = run_command("once", *recorded(tmp_path, sweep_of(gpu))).stdout
    assert "1, 2, 3, 4, 3 more" in text
    assert "65536 B" in text


def test_it_is_shown_where_a_process_lives_and_to_whom_its_gpu_was_given() -> None:
    processes = (
        Process(7, user="alice", command="python", container="containerd:0123", pod="ml/a"),
        Process(8, user="bob", job="77"),
        Process(9, container="docker:4567"),
    )
    why = (Reason(ReasonCode.COMPUTE_PROCESS, "7, 8, 9"),)
    given = Allocation(AllocationState.ALLOCATED, "pod ml/a")
    gpu = GpuSample(0, uuid_of(0), None, Verdict.HELD, why, 0, 1, processes, allocation=given)
    shown = as_text("gpu-01", Sample((gpu,)))
    assert "7 alice python pod ml/a, 8 bob job 77, 9 docker:4567" in shown
    assert "allocated to pod ml/a" in shown
    blind = Allocation(AllocationState.UNREADABLE, "no answer")
    assert "cannot be read: no answer" in as_text("gpu-01", Sample((replace(gpu, allocation=blind),)))
    assert "allocat" not in as_text("gpu-01", Sample((replace(gpu, allocation=Allocation(AllocationState.FREE)),)))


def test_what_a_kubelet_gave_away_is_in_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FakeNvml(tmp_path, 2).env.items():
        monkeypatch.setenv(name, value)
    config = write_config(tmp_path, schedulers=f"{{kubelet_socket: {tmp_path}/kubelet.sock}}")
    with FakeKubelet(tmp_path / "kubelet.sock") as kubelet:
        kubelet.answer = pod("train-0", device(fake_uuid(1)))
        document = json.loads(run_command("once", "--json", "--config", str(config)).stdout)
    assert [gpu["allocation"] for gpu in document["gpus"]] == [
        {"state": "free"},
        {"state": "allocated", "detail": "pod ml/train-0"},
    ]
    assert [gpu["power_milliwatts"] for gpu in document["gpus"]] == [70_000, 70_000]
