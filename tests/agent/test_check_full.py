"""Every line of `check`: what was found, why it matters, what to do."""

import json
import os
import shutil
import socket
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from agent import advice
from agent.clock import Clock
from agent.collectors.host import INIT_CGROUP_NAMESPACE, hidden_owners
from agent.findings import (
    Finding,
    Level,
    about_allocation,
    about_gpus,
    about_kernel_log,
    about_owners,
    about_process_view,
    about_reading,
)
from agent.reading import ProcessView, Sweep, Unreadable
from agent.releases import Releases
from agent.verdicts import RuleSettings, judge_sweep
from tests.agent.build_readings import GOOD_VIEW, idle_gpu, sweep_of, uuid_of
from tests.agent.command import run_command, write_config, write_recording
from tests.agent.test_check import write_key
from tests.fake_nvml import FakeNvml
from wire.messages import Allocation, AllocationState

N_A = Unreadable("[N/A]")
SICK_READINGS = [
    {"utilization_percent": N_A},
    {"memory_used_bytes": N_A},
    {"compute": N_A},
    {"graphics": N_A},
    {"mig_enabled": True},
    {"mig_enabled": N_A},
    {"recovery_action": "Reset"},
    {"recovery_action": N_A},
]


def has_all(finding: Finding) -> bool:
    return bool(finding.text and finding.why and (finding.todo or finding.level is Level.OK))


@pytest.mark.parametrize("changes", SICK_READINGS)
def test_a_gpu_that_cannot_be_judged_is_told_with_what_to_do(changes: dict[str, object]) -> None:
    sweep = sweep_of(idle_gpu(0, **changes))
    (finding,) = about_gpus(sweep, judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings()))
    assert finding.level is Level.PROBLEM
    assert has_all(finding)


def test_what_is_found_about_the_node_as_a_whole_has_all_three_too() -> None:
    bad_view = ProcessView(obstacles=("a",), error="b")
    findings = [*about_process_view(bad_view), *about_reading("nvml", Sweep(error="x"), 1.0)]
    findings += [*about_reading("nvml", sweep_of(idle_gpu()), 9.0), about_owners("hidden"), about_owners(None)]
    findings += [about_kernel_log("/dev/kmsg: Operation not permitted"), about_kernel_log(None)]
    wrong = sweep_of(idle_gpu(0, memory_total_bytes=0))
    findings += about_gpus(wrong, judge_sweep(wrong, GOOD_VIEW, {}, RuleSettings()))
    assert len(findings) == 10
    assert all(map(has_all, findings))


FREE, GIVEN = Allocation(AllocationState.FREE), Allocation(AllocationState.ALLOCATED, "pod ml/a")
BLIND = Allocation(AllocationState.UNREADABLE, "no answer")


@pytest.mark.parametrize(
    ("allocations", "level", "words"),
    [
        ([], Level.OK, "no kubelet and no Slurm"),
        ([FREE, FREE], Level.OK, "0 of 2 GPUs are given away"),
        ([FREE, GIVEN], Level.OK, "1 of 2 GPUs are given away, to pod ml/a"),
        ([GIVEN, BLIND], Level.PROBLEM, "no answer"),
    ],
)
def test_it_is_told_what_schedulers_gave_away(allocations: list[Allocation], level: Level, words: str) -> None:
    finding = about_allocation({uuid_of(index): one for index, one in enumerate(allocations)})
    assert finding.level is level
    assert words in finding.text
    assert has_all(finding)


def test_owners_are_hidden_where_proc_or_control_groups_are(tmp_path: Path) -> None:
    assert "does not show" in (hidden_owners(proc=tmp_path) or "")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text("1 (init) S")
    (tmp_path / "self/ns/cgroup").symlink_to("cgroup:[1]")
    assert "namespace of its own" in (hidden_owners(proc=tmp_path) or "")
    (tmp_path / "self/ns/cgroup").unlink()
    (tmp_path / "self/ns/cgroup").symlink_to(INIT_CGROUP_NAMESPACE)
    assert hidden_owners(proc=tmp_path) is None


def findings_of(folder: Path, **agent: str) -> dict[str, list[dict[str, str]]]:
    result = run_command("check", "--json", "--config", str(write_config(folder, **agent)))
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(result.stdout):
        found.setdefault(finding["topic"], []).append(finding)
    return found


def replayed(folder: Path) -> dict[str, str]:
    recording = write_recording(folder, sweep_of(idle_gpu(0)))
    return {"collector": "replay", "replay_file": str(recording)}


def test_every_finding_says_why_it_matters_also_to_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FakeNvml(tmp_path, 2).env.items():
        monkeypatch.setenv(name, value)
    found = findings_of(tmp_path, schedulers=f"{{kubelet_socket: {tmp_path}/none/kubelet.sock}}")
    assert found.keys() >= {"config", "owners", "collector", "GPU 0", "allocation", "state_dir", "agent", "bus"}
    assert all(finding["why"] for of_topic in found.values() for finding in of_topic)
    assert {topic.split(" ")[0] if topic.startswith("GPU") else topic for topic in found} <= advice.WHY.keys()


RUNNERS = '[{name: chat, preset: vllm, url: "http://127.0.0.1:9"}]'


def test_whether_the_kernel_log_can_be_read_is_told_where_runners_are_watched(tmp_path: Path) -> None:
    may_read = os.access("/dev/kmsg", os.R_OK) or shutil.which("journalctl") is not None
    (finding,) = findings_of(tmp_path, runners=RUNNERS, **replayed(tmp_path))["kernel log"]
    assert finding["level"] in ({"ok", "advice"} if may_read else {"advice"})
    assert ("CAP_SYSLOG" in finding.get("todo", "")) is (finding["level"] == "advice")
    assert "kernel log" not in findings_of(tmp_path, **replayed(tmp_path))


def test_a_release_is_told_with_who_and_how_to_end_it(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    Releases(tmp_path / "state", Clock()).begin("alice", "gpu reset", timedelta(hours=1))
    (finding,) = findings_of(tmp_path, **replayed(tmp_path))["release"]
    assert "released by alice" in finding["text"]
    assert "--end" in finding["todo"]


def test_a_damaged_release_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/release.json").write_text("{")
    assert findings_of(tmp_path, **replayed(tmp_path))["release"][0]["level"] == "problem"


def bus(folder: Path, port: int) -> str:
    return f"{{insecure: true, credentials: {write_key(folder)}, servers: ['nats://127.0.0.1:{port}']}}"


def test_a_server_that_does_not_answer_is_advice_with_its_place(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    _, finding = findings_of(tmp_path, bus=bus(tmp_path, port), **replayed(tmp_path))["bus"]
    assert (finding["level"], finding["text"]) == ("advice", f"no server answers at 127.0.0.1:{port}")


def greet(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"INFO {}\r\n")


def test_a_server_that_answers_needs_no_word(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        greeter = threading.Thread(target=greet, args=(server,))
        greeter.start()
        found = findings_of(tmp_path, bus=bus(tmp_path, server.getsockname()[1]), **replayed(tmp_path))
        greeter.join()
    assert [finding["level"] for finding in found["bus"]] == ["ok"]


def test_the_text_says_why_and_what_to_do_below_each_finding_that_wants_something(tmp_path: Path) -> None:
    recording = write_recording(tmp_path, sweep_of(idle_gpu(0, recovery_action="Reset")))
    config = write_config(tmp_path, collector="replay", replay_file=str(recording))
    lines = run_command("check", "--config", str(config)).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("PROBLEM  GPU 0"))
    assert lines[at + 1].strip() == f"why: {advice.WHY['GPU']}"
    assert lines[at + 2].strip().startswith("-> drain the node")
    assert os.linesep.join(lines).count("why:") >= 3
