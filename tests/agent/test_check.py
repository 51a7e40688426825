"""`gpu-oncall-agent check`: what stands in the way, what to do, and the line for idle memory."""

import json
import re
from pathlib import Path

import pytest

from agent.config import load
from agent.findings import Finding, Level, about_baseline, about_gpus, about_process_view, about_reading
from agent.known_gpus import FILE_NAME
from agent.read_sample import rule_settings
from agent.reading import Baseline, GpuReading, KnownGpu, ProcessView, Sweep
from agent.verdicts import RuleSettings, judge_sweep
from tests.agent.build_readings import DRIVER, GOOD_VIEW, MIB, MODEL, compute, idle_gpu, sweep_of, uuid_of
from tests.agent.command import run_command, write_config, write_recording
from tests.fake_nvml import FakeNvml
from wire.messages import Verdict
from wire.nkey import generate_seed

NO_BASELINE = Baseline()


def baseline_findings(
    *gpus: GpuReading, baseline: Baseline = NO_BASELINE, driver: str | None = DRIVER
) -> list[Finding]:
    sweep = Sweep(gpus, driver_version=driver)
    sample = judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings(baseline=baseline))
    return list(about_baseline(baseline, sweep, sample))


def quiet(index: int, used: int = 4 * MIB, **changes: object) -> GpuReading:
    return idle_gpu(index, memory_used_bytes=used, **changes)


def test_the_line_for_idle_memory_names_the_exact_bytes_and_the_driver(tmp_path: Path) -> None:
    (finding,) = baseline_findings(quiet(0), quiet(1), quiet(2, 6 * MIB, model="RTX A6000"), idle_gpu(3))
    assert finding.level is Level.ADVICE
    assert "only if you have made sure that nothing runs" in finding.todo
    line = re.search(r"idle_memory_bytes: (.*)$", finding.todo)
    assert line is not None
    settings = rule_settings(load(write_config(tmp_path, idle_memory_bytes=line.group(1))))
    assert settings.baseline == Baseline(DRIVER, {MODEL: 4 * MIB, "RTX A6000": 6 * MIB})
    sample = judge_sweep(sweep_of(quiet(0)), GOOD_VIEW, {}, settings)
    assert sample.gpus[0].verdict is Verdict.CANDIDATE


@pytest.mark.parametrize(
    "gpu",
    [
        idle_gpu(0),
        quiet(0, utilization_percent=1),
        quiet(0, compute=compute(5)),
        quiet(0, mig_enabled=True),
        quiet(0, 64 * MIB + 1),
        quiet(0, model=None),
    ],
)
def test_no_line_is_offered_for_a_gpu_that_may_be_in_use(gpu: GpuReading) -> None:
    assert baseline_findings(gpu) == []


def test_gpus_of_one_model_that_differ_get_no_line() -> None:
    (finding,) = baseline_findings(quiet(0, 4 * MIB), quiet(1, 5 * MIB))
    assert "no line fits" in finding.text
    assert "idle_memory_bytes" not in finding.todo


def test_without_a_driver_version_there_is_no_line() -> None:
    assert baseline_findings(quiet(0), driver=None) == []


def test_a_collector_without_graphics_processes_is_told_to_be_changed() -> None:
    (finding,) = baseline_findings(quiet(0, graphics=None))
    assert "collector: nvml" in finding.todo


def test_a_baseline_of_another_driver_is_said_to_be_void() -> None:
    first, second = baseline_findings(quiet(0), baseline=Baseline("535.104.05", {MODEL: 4 * MIB}))
    assert "void" in first.text
    assert DRIVER in second.todo


def test_a_baseline_that_fits_needs_no_word() -> None:
    assert baseline_findings(quiet(0), baseline=Baseline(DRIVER, {MODEL: 4 * MIB})) == []


def levels(findings: list[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


def test_every_obstacle_of_the_process_view_is_a_problem() -> None:
    view = ProcessView(obstacles=("a", "b"), error="c")
    assert levels(list(about_process_view(view))) == [Level.PROBLEM] * 3
    assert levels(list(about_process_view(ProcessView()))) == [Level.OK]


def test_a_slow_reading_is_advice_about_persistence_mode() -> None:
    assert levels(list(about_reading("nvml", sweep_of(idle_gpu()), 0.1))) == [Level.OK]
    _, slow = about_reading("nvml", sweep_of(idle_gpu()), 6.0)
    assert "persistence" in slow.todo


def test_a_failed_reading_is_told_once() -> None:
    sweep = Sweep(error="no driver")
    sample = judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings())
    findings = [*about_reading("nvml", sweep, 0.1), *about_gpus(sweep, sample)]
    assert [finding.text for finding in findings] == ["nvml: no driver"]


def test_a_missing_gpu_is_a_problem_with_the_way_out() -> None:
    sweep = sweep_of(idle_gpu(0))
    sample = judge_sweep(sweep, GOOD_VIEW, {uuid_of(1): KnownGpu(1)}, RuleSettings())
    (finding,) = about_gpus(sweep, sample)
    assert finding.level is Level.PROBLEM
    assert "accept-gpus" in finding.todo


def replaying(folder: Path, sweep: Sweep, **agent: str) -> list[str]:
    recording = write_recording(folder, sweep)
    return ["--config", str(write_config(folder, collector="replay", replay_file=str(recording), **agent))]


def write_key(folder: Path) -> Path:
    key = folder / "node.nkey"
    key.write_text(generate_seed())
    key.chmod(0o600)
    return key


def test_a_node_without_obstacles_ends_with_status_0_and_nothing_is_written(tmp_path: Path) -> None:
    key = write_key(tmp_path)
    options = replaying(
        tmp_path,
        sweep_of(idle_gpu(0)),
        bus=f"{{insecure: true, credentials: {key}, servers: ['nats://127.0.0.1:4222']}}",
    )
    result = run_command("check", *options)
    assert result.exit_code == 0, result.stdout
    assert "Nothing stands in the way." in result.stdout
    assert not (tmp_path / "state").exists()
    assert key.read_text() not in result.stdout


def test_an_unreadable_key_and_a_sick_gpu_are_problems_with_status_1(tmp_path: Path) -> None:
    options = replaying(tmp_path, sweep_of(idle_gpu(0, recovery_action="Reset")))
    result = run_command("check", "--json", *options)
    findings = json.loads(result.stdout)
    assert result.exit_code == 1
    problems = {finding["topic"]: finding for finding in findings if finding["level"] == "problem"}
    assert problems.keys() == {"GPU 0", "bus"}
    assert "Reset" in problems["GPU 0"]["text"]
    assert "credentials" in problems["bus"]["todo"]


def test_a_wrong_config_ends_with_status_2(tmp_path: Path) -> None:
    assert run_command("check", "--config", str(write_config(tmp_path, windw="5m"))).exit_code == 2


def test_the_driver_and_the_number_of_gpus_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FakeNvml(tmp_path, 3, version="535.129.03").env.items():
        monkeypatch.setenv(name, value)
    result = run_command("check", "--config", str(write_config(tmp_path)))
    assert "3 GPUs read" in result.stdout
    assert "driver 535.129.03" in result.stdout


def test_a_damaged_known_set_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FakeNvml(tmp_path, 1).env.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / FILE_NAME).write_text("{")
    result = run_command("check", "--config", str(write_config(tmp_path)))
    assert result.exit_code == 1
    assert f"{FILE_NAME} is damaged" in result.stdout


def test_a_preloaded_library_stands_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FakeNvml(tmp_path, 1).env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")
    result = run_command("check", "--config", str(write_config(tmp_path)))
    assert "LD_PRELOAD is set" in result.stdout
    assert result.exit_code == 1
