"""The explanation of a process: helpful, and harmless whatever the process calls itself."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.clock import Clock
from agent.processes import explain
from wire.messages import Process, ProcessKind

TICKS = os.sysconf("SC_CLK_TCK")


def fake_proc(folder: Path, pid: int, name: bytes, started_ticks: int) -> Path:
    proc = folder / "proc"
    (proc / str(pid)).mkdir(parents=True)
    (proc / "stat").write_text("cpu 1 2 3\nbtime 1700000000\nprocesses 9\n")
    fields = ["S", *["0"] * 18, str(started_ticks), *["0"] * 10]
    (proc / str(pid) / "stat").write_bytes(b"%d (" % pid + name + b") " + " ".join(fields).encode())
    return proc


def test_a_living_process_is_named_with_its_user_and_its_start() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (explained,) = explain([Process(child.pid, ProcessKind.GRAPHICS, 5)])
    finally:
        child.communicate()
    now = datetime.fromtimestamp(Path("/proc/self").stat().st_ctime, UTC)
    assert (explained.kind, explained.used_memory_bytes) == (ProcessKind.GRAPHICS, 5)
    assert explained.user
    assert (explained.command or "").startswith("python")
    assert explained.started_at is not None
    assert abs(explained.started_at - now) < timedelta(hours=1)


def test_a_process_that_is_gone_stays_in_the_list_as_it_is(tmp_path: Path) -> None:
    gone = Process(4194304, ProcessKind.COMPUTE, 7)
    assert explain([gone], proc=tmp_path) == (gone,)


def test_a_name_of_brackets_and_control_characters_is_made_harmless(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, 7, b"a) (\x1b[31m\xff b\n", 12 * TICKS)
    (explained,) = explain([Process(7)], proc=proc, passwd=tmp_path / "none")
    assert explained.command == "a) (?[31m\ufffd b?"
    assert explained.started_at == datetime.fromtimestamp(1700000012, UTC)
    assert explained.user == f"uid {os.getuid()}"
    assert explained.started == str(12 * TICKS)


def test_a_user_is_looked_up_in_the_file_only(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, 7, b"x", 0)
    passwd = tmp_path / "passwd"
    passwd.write_text(f"broken line\n:::\nroot2:x:{os.getuid()}:0::/:/bin/sh\n")
    assert explain([Process(7)], proc=proc, passwd=passwd)[0].user == "root2"


def test_a_user_that_is_made_while_the_agent_runs_is_known_from_then_on(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, 7, b"x", 0)
    passwd = tmp_path / "passwd"
    passwd.write_text("someone:x:4000000000:0::/:/bin/sh\n")
    assert explain([Process(7)], proc=proc, passwd=passwd)[0].user == f"uid {os.getuid()}"
    new = tmp_path / "new"
    new.write_text(f"alice:x:{os.getuid()}:0::/:/bin/sh\n")
    new.replace(passwd)
    assert explain([Process(7)], proc=proc, passwd=passwd)[0].user == "alice"
    passwd.unlink()
    assert explain([Process(7)], proc=proc, passwd=passwd)[0].user == f"uid {os.getuid()}"


def test_when_somebody_sets_the_clock_starts_are_told_by_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = fake_proc(tmp_path, 7, b"x", 0)
    assert explain([Process(7)], proc=proc)[0].started_at == datetime.fromtimestamp(1700000000, UTC)
    (proc / "stat").write_text("btime 1700003600\n")
    now = Clock().wall() + timedelta(hours=1)
    monkeypatch.setattr(Clock, "wall", lambda self: now)
    assert explain([Process(7)], proc=proc)[0].started_at == datetime.fromtimestamp(1700003600, UTC)


def test_a_pid_that_was_given_to_another_process_is_told_as_that_one(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, 7, b"first", 1)
    (proc / "7/cgroup").write_text("0::/system.slice/slurmstepd.scope/job_77/step_0\n")
    kinds = [Process(7), Process(7, ProcessKind.GRAPHICS, 5)]
    assert [(one.command, one.job, one.started) for one in explain(kinds, proc=proc)] == [("first", "77", "1")] * 2
    (proc / "7/cgroup").write_text("0::/user.slice\n")
    (proc / "7/stat").write_bytes(b"7 (second) S " + b"0 " * 18 + b"2 0")
    (again,) = explain(kinds[1:], proc=proc)
    assert (again.command, again.job, again.started, again.used_memory_bytes) == ("second", None, "2", 5)


def test_a_stat_line_that_makes_no_sense_explains_nothing(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, 7, b"x", 0)
    for line in ("", "7", "7 (x) S 1", "7 (x) " + "word " * 30):
        (proc / "7/stat").write_text(line)
        (explained,) = explain([Process(7)], proc=proc)
        assert (explained.started_at, explained.started) == (None, "")


POD = "11111111-2222-3333-4444-555555555555"
ID = "0123456789ab" + "c" * 52


def placed(folder: Path, cgroup: str, pod_logs: Path) -> Process:
    proc = fake_proc(folder, 7, b"python", 0)
    (proc / "7/cgroup").write_text(cgroup)
    (explained,) = explain([Process(7)], proc=proc, pod_logs=pod_logs)
    return explained


def test_a_process_of_a_pod_is_told_with_the_pods_name_and_the_start_of_its_containers_id(tmp_path: Path) -> None:
    logs = tmp_path / "pods"
    for name in (f"ml_train-0_{POD}", "kube-system_dns_ffffffff-2222-3333-4444-555555555555", "stray"):
        (logs / name).mkdir(parents=True)
    scope = f"kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope"
    process = placed(tmp_path, f"0::/kubepods.slice/kubepods-burstable.slice/{scope}\n", logs)
    assert (process.pod, process.container, process.job) == ("ml/train-0", "containerd:0123456789ab", None)
    assert process.command == "python"


def test_without_kubelets_log_folder_a_pod_is_told_by_its_uid(tmp_path: Path) -> None:
    process = placed(tmp_path, f"0::/kubepods/pod{POD}/{ID}\n", tmp_path / "none")
    assert (process.pod, process.container) == (POD, "container:0123456789ab")


def test_a_process_of_a_slurm_job_is_told_with_the_job(tmp_path: Path) -> None:
    assert placed(tmp_path, "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n", tmp_path).job == "77"


def test_a_process_on_the_host_is_in_no_container(tmp_path: Path) -> None:
    process = placed(tmp_path, "0::/user.slice/user-1000.slice/session-5.scope\n", tmp_path)
    assert (process.container, process.pod, process.job) == (None, None, None)
