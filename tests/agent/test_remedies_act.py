"""Restarts and reboots by a systemctl and a docker of the test's own on PATH; and what became of the old process."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.remedies import reason
from agent.remedies.act import reboot, restart, way
from agent.remedies.offers import node_remedies
from agent.remedies.reason import note, reason_of
from agent.remedy_config import Reboot, Remedies, Restart
from agent.runners import proc
from tests import build
from tests.build_orders import ISSUED, order
from tests.nats_server import until
from wire import subjects
from wire.configfile import Duration
from wire.messages import decode_heartbeat, encode
from wire.orders import MOST_PEOPLE, Action
from wire.remedies import LONGEST_DETAIL, MOST_TOLD, JournalEntry, OrderState
from wire.ticks import MOST_RUNNERS

UNIT = Restart(systemd_unit="vllm.service")
REBOOT = order(Action.REBOOT_NODE)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH, before everything else: nothing of this machine is ever restarted by a test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for name in ("systemctl", "docker"):
        program(folder, name)
    return folder


def program(folder: Path, name: str, then: str = "") -> Path:
    """A program that writes down its arguments, one a line, and then does what the test says."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a" >> "$0.args"; done\n{then}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def arguments(path: Path) -> list[str]:
    return Path(f"{path}.args").read_text().splitlines()


async def test_a_service_is_restarted_by_its_unit(programs: Path) -> None:
    ended = await restart(UNIT, {})
    assert (ended.state, ended.detail) == (OrderState.DONE, "systemctl ended well")
    assert arguments(programs / "systemctl") == ["--no-ask-password", "restart", "--", "vllm.service"]


async def test_a_container_is_restarted_with_half_a_minute_between_sigterm_and_sigkill(programs: Path) -> None:
    ended = await restart(Restart(container="vllm"), {})
    assert ended.state is OrderState.DONE
    assert arguments(programs / "docker") == ["restart", "-t", "30", "vllm"]


async def test_a_command_is_told_what_it_is_about_and_nothing_of_it_goes_through_a_shell(programs: Path) -> None:
    path = program(programs, "again", 'printf "%s" "$GPU_ONCALL_REASON" > "$0.reason"')
    how = Restart(command=[str(path), "$(touch /tmp/x); a b"])
    ended = await restart(how, {"GPU_ONCALL_REASON": "`no`\n$HOME"})
    assert ended.detail == "again ended well"
    assert arguments(path) == ["$(touch /tmp/x); a b"]
    assert Path(f"{path}.reason").read_text() == "`no`\n$HOME"


async def test_what_ends_badly_is_told_with_its_last_line(programs: Path) -> None:
    program(programs, "systemctl", 'echo "first" >&2; echo "Unit vllm.service not found." >&2; exit 5')
    ended = await restart(UNIT, {})
    assert ended.state is OrderState.FAILED
    assert ended.detail == "systemctl ended with status 5: Unit vllm.service not found."


async def test_what_a_command_of_the_operators_own_prints_is_told_to_nobody(programs: Path) -> None:
    path = program(programs, "again", 'echo "token=hush" >&2; exit 1')
    ended = await restart(Restart(command=[str(path)]), {})
    assert ended.detail == "again ended with status 1"


@pytest.mark.parametrize("how", [UNIT, Restart(container="vllm"), Restart(command=["/nowhere/again"])])
async def test_what_cannot_be_started_was_not_done(
    programs: Path, how: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("systemctl", "docker"):
        (programs / name).chmod(0o644)
    (programs / "systemctl").unlink()
    (programs / "docker").unlink()
    monkeypatch.setenv("PATH", str(programs))
    ended = await restart(how, {})
    assert ended.state is OrderState.FAILED
    assert "cannot be started: No such file" in ended.detail


async def test_what_hangs_gets_sigterm_and_its_end_is_not_known(programs: Path) -> None:
    path = program(programs, "hangs", 'trap "echo term >> $0.args; exit 0" TERM\nwhile :; do sleep 0.05; done')
    ended = await restart(Restart(command=[str(path)], timeout=Duration(seconds=0.5)), {})
    assert (ended.state, ended.detail) == (OrderState.LOST, "hangs did not end within 0.5 s, and was stopped")
    assert arguments(path) == ["term"]


async def test_what_a_command_leaves_behind_is_not_waited_for(programs: Path) -> None:
    path = program(programs, "again", 'sleep 60 & echo $! > "$0.pid"')
    async with asyncio.timeout(20):
        ended = await restart(Restart(command=[str(path)]), {})
    assert ended.state is OrderState.DONE
    os.kill(int(Path(f"{path}.pid").read_text()), signal.SIGKILL)


async def test_a_reboot_is_asked_of_systemd_with_its_reason(programs: Path) -> None:
    ended = await reboot(Reboot(), "because", {})
    assert ended.state is OrderState.DONE
    assert arguments(programs / "systemctl") == ["--no-ask-password", "--message=because", "reboot"]


async def test_a_reboot_by_command_runs_that(programs: Path) -> None:
    path = program(programs, "boot", "exit 3")
    ended = await reboot(Reboot(method="command", command=[str(path), "now"]), "because", {})
    assert (ended.state, ended.detail) == (OrderState.FAILED, "boot ended with status 3")
    assert arguments(path) == ["now"]


def test_the_reason_names_what_who_and_why_in_one_printable_line() -> None:
    text = reason_of(order(Action.REBOOT_NODE, approvers=["U1", "host:root"], reason="hangs\n\x1b[31msince 3"))
    assert text == (
        "gpu-oncall reboots this node, approved by U1, host:root, order 0f0e0d0c0b0a09080706050403020100, "
        "incident 12 (stalled): hangs  [31msince 3"
    )
    by_policy = reason_of(order(approvers=[], policy="bot.groups.0.auto_remedy: restart", reason=""))
    assert by_policy.startswith("gpu-oncall restarts chat, by the policy bot.groups.0.auto_remedy: restart, order ")


def test_a_long_reason_is_there_in_full_and_never_more_than_a_heartbeat_can_hold() -> None:
    two = reason_of(order(Action.REBOOT_NODE, approvers=["U0123456789", "host:root"], reason="x" * 200))
    assert two.endswith(": " + "x" * 200)
    people = [f"U{number:010d}" for number in range(MOST_PEOPLE)]
    assert len(reason_of(order(Action.REBOOT_NODE, approvers=people, reason="x" * 200))) == LONGEST_DETAIL


def test_whatever_the_config_and_the_journal_hold_the_bot_can_read_the_heartbeat() -> None:
    longest = Restart(systemd_unit="u" * 200 + ".service")
    runners = {f"{number}" + "r" * 31: longest for number in range(MOST_RUNNERS)}
    entry = JournalEntry("o" * 96, Action.REBOOT_NODE, OrderState.LOST, ISSUED, "b" * 64, "r" * 32, None, "d" * 400)
    told = node_remedies(Remedies(runners, Reboot()), "c" * 32, 2**53, [entry] * MOST_TOLD)
    beat = build.heartbeat(None, remedies=told)
    assert decode_heartbeat(subjects.heartbeat(beat.node), encode(beat)) == beat
    assert len(encode(beat)) < 10_000


def test_the_reason_is_in_the_systems_journal(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "socket"))
        journal.settimeout(10)
        note(reason_of(REBOOT), tmp_path / "socket")
        fields = journal.recv(4096).decode().splitlines()
    assert fields == [f"MESSAGE={reason_of(REBOOT)}", "PRIORITY=4", "SYSLOG_IDENTIFIER=gpu-oncall-agent"]


def test_without_a_systems_journal_the_reason_is_in_our_own_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note(reason_of(REBOOT), tmp_path / "none")
    assert reason_of(REBOOT) in caplog.text
    assert reason.JOURNAL_SOCKET.is_absolute()


def test_people_are_told_how_it_is_done() -> None:
    assert way(UNIT) == "systemd unit vllm.service"
    assert way(Restart(container="vllm")) == "container vllm"
    assert way(Restart(command=["/x", "--token", "hush"])) == "command"
    assert way(Reboot()) == "systemd"
    assert way(Reboot(method="command", command=["/x"])) == "command"


# --- the old process --------------------------------------------------------------------------------------------------


def fake_process(folder: Path, state: str = "D", pending: str = "0000000000000100", started: int = 77) -> Path:
    (folder / "4321").mkdir()
    fields = [state, *["0"] * 18, str(started), *["0"] * 10]
    (folder / "4321/stat").write_text(f"4321 (vllm) {' '.join(fields)}\n")
    (folder / "4321/status").write_text(f"Name:\tvllm\nSigPnd:\t0000000000000000\nShdPnd:\t{pending}\n")
    return folder


def test_a_process_that_lives_with_sigkill_pending_has_survived_it(tmp_path: Path) -> None:
    assert proc.survived_kill(4321, "77", fake_process(tmp_path))


@pytest.mark.parametrize(
    "changes", [{"pending": "0000000000004000"}, {"state": "Z"}, {"started": 78}, {"pending": "0000000000000000"}]
)
def test_a_process_that_was_not_killed_or_is_another_or_is_over_has_not(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    assert not proc.survived_kill(4321, "77", fake_process(tmp_path, **changes))
    assert not proc.survived_kill(9999, "77", tmp_path)


async def test_a_living_process_of_this_machine_has_not_survived_anything() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with child:
        started = proc.process(child.pid).started
        assert started
        assert not proc.survived_kill(child.pid, started)
        child.kill()
        await until(lambda: proc.process(child.pid).started != started, "it ends")
        assert not proc.survived_kill(child.pid, started)
