"""`gpu-oncall-agent check` about remedies: what is on, whether it could work here, and that nothing is on by itself."""

import json
import re
import stat
from pathlib import Path

import pytest

from agent.config import load
from agent.findings import Finding, Level
from agent.remedies.ready import about_remedies
from tests.agent.command import run_command, write_config, write_recording
from tests.build_orders import KEY
from wire import nodefiles
from wire.configfile import ConfigError

RUNNERS = '[{name: chat, preset: vllm, url: "http://127.0.0.1:8000"}]'
LOADED, ANSWER_YES = "echo LoadState=loaded", "echo 's \"yes\"'"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return folder


def program(folder: Path, name: str, then: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{then}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


async def findings(folder: Path, remedies: str, key: bool = True, lock: str = "lock") -> list[Finding]:
    (folder / "state").mkdir(exist_ok=True)
    if key:
        nodefiles.order_key_file(folder / "state").write_text(nodefiles.order_key_text(bytes(KEY.verify_key)))
    remedies = f"{{lock_file: {folder / lock}, {remedies}}}"
    found = await about_remedies(load(write_config(folder, runners=RUNNERS, remedies=remedies)))
    assert not (folder / lock).exists(), "check writes nothing"
    assert all(finding.why for finding in found)
    assert all(finding.todo for finding in found if finding.level is not Level.OK)
    return found


def texts(found: list[Finding], level: Level) -> list[str]:
    return [finding.text for finding in found if finding.level is level]


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ({"collector": "nvidia-smi"}, True),
        ({"collector": "dcgm", "dcgm": "{processes: nvidia-smi}"}, True),
        ({"collector": "dcgm"}, False),
        ({"collector": "nvml", "dcgm": "{processes: nvidia-smi}"}, False),
    ],
)
async def test_a_collector_that_lists_no_graphics_processes_is_told_where_a_remedy_is_on(
    tmp_path: Path, programs: Path, settings: dict[str, str], is_told: bool
) -> None:
    remedies = f"{{lock_file: {tmp_path / 'lock'}, reboot_node: {{method: systemd}}}}"
    found = await about_remedies(load(write_config(tmp_path, remedies=remedies, **settings)))
    assert any("graphics processes" in text for text in texts(found, Level.ADVICE)) is is_told


@pytest.mark.parametrize(("mode", "is_taken"), [("live", False), ("demo", True)])
def test_on_a_recording_no_remedy_can_be_on(tmp_path: Path, mode: str, is_taken: bool) -> None:
    """Its processes are of another time: an empty list would say that a reboot kills nobody."""
    recording = write_recording(tmp_path)
    remedies = f"{{lock_file: {tmp_path / 'lock'}, reboot_node: {{method: systemd}}}}"
    path = write_config(tmp_path, mode=mode, collector="replay", replay_file=str(recording), remedies=remedies)
    if is_taken:
        assert load(path).remedies.are_offered
        return
    with pytest.raises(ConfigError, match=r"agent\.remedies.*a recording does not tell who is on the GPUs now"):
        load(path)


def test_nothing_is_on_by_itself_and_check_says_so(tmp_path: Path) -> None:
    recording = write_recording(tmp_path)
    path = write_config(tmp_path, collector="replay", replay_file=str(recording))
    shown = json.loads(run_command("check", "--json", "--config", str(path)).stdout)
    (finding,) = [finding for finding in shown if finding["topic"] == "remedies"]
    assert finding["level"] == "ok"
    assert "none is on" in finding["text"]
    assert "the bot cannot switch one on" in finding["text"]


async def test_what_is_there_and_may_be_used_is_fine(tmp_path: Path, programs: Path) -> None:
    program(programs, "systemctl", LOADED)
    program(programs, "busctl", ANSWER_YES)
    found = await findings(tmp_path, "restart_runner: {chat: {systemd_unit: vllm.service}}, reboot_node: {}")
    assert {finding.level for finding in found} == {Level.OK}
    assert [finding.text for finding in found] == [
        "restart of chat by systemd unit vllm.service: the unit is there",
        "reboot of this node by systemd: this user may",
        "each of them needs a person's approval (auto_remedy: off)",
    ]


@pytest.mark.parametrize(
    ("systemctl", "words"),
    [(None, "systemctl cannot be started"), ("echo LoadState=not-found", "knows no such unit"), ("exit 1", "status 1")],
)
async def test_a_unit_that_cannot_be_restarted_here_is_a_problem(
    tmp_path: Path, programs: Path, systemctl: str | None, words: str
) -> None:
    if systemctl is not None:
        program(programs, "systemctl", systemctl)
    found = await findings(tmp_path, "restart_runner: {chat: {systemd_unit: vllm.service}}")
    (text,) = texts(found, Level.PROBLEM)
    assert words in text


async def test_another_user_than_root_is_told_about_polkit(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    program(programs, "systemctl", LOADED)
    program(programs, "busctl", "echo 's \"challenge\"'")
    found = await findings(tmp_path, "restart_runner: {chat: {systemd_unit: vllm.service}}, reboot_node: {}")
    assert "--allow-restart vllm.service" in next(f.todo for f in found if f.level is Level.ADVICE)
    (problem,) = [finding for finding in found if finding.level is Level.PROBLEM]
    assert '(CanReboot: s "challenge")' in problem.text
    assert problem.todo == "gpu-oncall-agent install-service --allow-reboot"


async def test_without_systemd_a_reboot_by_it_is_a_problem(tmp_path: Path, programs: Path) -> None:
    found = await findings(tmp_path, "reboot_node: {}")
    assert texts(found, Level.PROBLEM) == ["reboot of this node by systemd: there is no systemctl here"]
    program(programs, "systemctl", LOADED)
    found = await findings(tmp_path, "reboot_node: {}")
    assert "busctl cannot be started" in texts(found, Level.PROBLEM)[0]


@pytest.mark.parametrize(("docker", "words"), [(None, "docker cannot be started"), ("exit 1", "docker ended with")])
async def test_a_container_that_cannot_be_asked_for_is_a_problem(
    tmp_path: Path, programs: Path, docker: str | None, words: str
) -> None:
    if docker is not None:
        program(programs, "docker", docker)
    found = await findings(tmp_path, "restart_runner: {chat: {container: vllm}}")
    assert words in texts(found, Level.PROBLEM)[0]


async def test_a_container_that_runs_is_fine(tmp_path: Path, programs: Path) -> None:
    program(programs, "docker", "echo running")
    found = await findings(tmp_path, "restart_runner: {chat: {container: vllm}}")
    assert texts(found, Level.OK)[0] == "restart of chat by container vllm: it is running"


async def test_a_command_must_be_there(tmp_path: Path, programs: Path) -> None:
    path = program(programs, "again", "")
    remedies = f"restart_runner: {{chat: {{command: [{path}]}}}}, reboot_node: {{method: command, command: [/none]}}"
    found = await findings(tmp_path, remedies)
    assert texts(found, Level.OK)[0] == f"restart of chat by command: {path} can be run"
    assert "/none is no program" in texts(found, Level.PROBLEM)[0]


async def test_a_missing_key_a_missing_lock_and_a_policy_are_told(tmp_path: Path, programs: Path) -> None:
    program(programs, "docker", "echo running")
    remedies = "restart_runner: {chat: {container: vllm}}, auto_remedy: restart"
    found = await findings(tmp_path, remedies, key=False, lock="none/lock")
    lock, key = texts(found, Level.PROBLEM)
    assert "lock of this host" in lock
    assert "no key of a bot" in key
    assert "needs nobody's approval" in texts(found, Level.ADVICE)[0]


def test_the_config_in_the_docs_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/remedies.md").read_text()
    examples = re.findall(r"^```yaml\n(agent:.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert examples
    for example in examples:
        (tmp_path / "config.yaml").write_text(example)
        assert load(tmp_path / "config.yaml").remedies.are_offered
