"""The runner's process is found on the real /proc, and witnesses are found in the kernel's log."""

import asyncio
import errno
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from agent.runner_config import ProcessMatch, StateLayer
from agent.runners import proc
from agent.runners.sources import Unread
from agent.runners.state import ProcessFinder
from agent.runners.witness import KernelLog
from tests.nats_server import until
from wire.ticks import ProcessState, WitnessKind


@pytest.fixture
async def sleeper():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)")
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_a_pid_file_leads_to_the_process_until_it_is_gone(sleeper, tmp_path):
    pid_file = tmp_path / "pid"
    pid_file.write_text(f"{sleeper.pid}\n")
    finder = ProcessFinder(StateLayer(pid_file=pid_file))
    found = await finder.find()
    assert (found.process.state, found.process.pid) == (ProcessState.ALIVE, sleeper.pid)
    assert found.process.started.isdecimal()
    assert 0 <= found.process.age_seconds < 120
    assert found.read_bytes > 0
    sleeper.send_signal(signal.SIGSTOP)
    await until(lambda: proc.process(sleeper.pid).state is ProcessState.STOPPED, "it is stopped")
    sleeper.kill()
    await sleeper.wait()
    assert (await finder.find()).process.state is ProcessState.GONE


async def test_a_pid_file_that_is_gone_is_a_process_that_is_gone_and_one_without_a_number_is_not_read(tmp_path):
    finder = ProcessFinder(StateLayer(pid_file=tmp_path / "pid"))
    assert (await finder.find()).process.state is ProcessState.GONE
    (tmp_path / "pid").write_text("none")
    assert isinstance(await finder.find(), Unread)


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), PermissionError(errno.EPERM, "no")])
async def test_a_process_that_cannot_be_read_now_is_not_gone(sleeper, tmp_path, monkeypatch, error):
    """The agent has no file left to read with, or may not: the runner works."""
    pid_file, read = tmp_path / "pid", Path.read_text
    pid_file.write_text(f"{sleeper.pid}\n")

    def read_text(path, *more, **options):
        if path.name == "stat":
            raise error
        return read(path, *more, **options)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert isinstance(await ProcessFinder(StateLayer(pid_file=pid_file)).find(), Unread)
    assert not proc.survived_kill(sleeper.pid, "77")


async def test_a_zombie_is_gone():
    program = "import os, time; pid = os.fork(); pid or os._exit(0); print(pid, flush=True); time.sleep(9)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    pid = int(await process.stdout.readline())
    await until(lambda: proc.stat(pid)[1][0] == "Z", "the child is a zombie")
    assert proc.process(pid).state is ProcessState.GONE
    process.kill()
    await process.wait()


async def test_a_port_leads_to_who_listens_there():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        found = await ProcessFinder(StateLayer(port=port)).find()
        assert found.process.pid == os.getpid()
        assert port in proc.ports_of(os.getpid())
    assert isinstance(await ProcessFinder(StateLayer(port=port)).find(), Unread), "nobody is seen: that proves nothing"


async def test_an_executable_leads_to_the_one_that_started_the_others(tmp_path):
    program = tmp_path / "runner"
    shutil.copy("/bin/sh", program)
    both = f"{program} -c 'kill -STOP $$' & read x; kill -KILL $!"  # the child starts none of its own
    parent = await asyncio.create_subprocess_exec(program, "-c", both, stdin=asyncio.subprocess.PIPE)
    try:
        await until(lambda: len(list(_running(program))) == 2, "parent and child run")
        finder = ProcessFinder(StateLayer(process=ProcessMatch(program)))
        assert (await finder.find()).process.pid == parent.pid
        other_user = ProcessFinder(StateLayer(process=ProcessMatch(program, "nobody")))
        assert (await other_user.find()).process.state is ProcessState.GONE
        unknown_user = ProcessFinder(StateLayer(process=ProcessMatch(program, "no-such-user")))
        assert (await unknown_user.find()).is_config_error
    finally:
        parent.stdin.close()
        await parent.wait()
    await until(lambda: not list(_running(program)), "both have ended")
    assert (await finder.find()).process.state is ProcessState.GONE


def _running(program):
    for pid in proc.pids():
        try:
            if os.readlink(f"/proc/{pid}/exe") == str(program):
                yield pid
        except OSError:
            continue


SYSTEMCTL = """#!{python}
print("LoadState={load}\\nActiveState={active}\\nMainPID={pid}")
"""


@pytest.mark.parametrize(
    ("load", "active", "has_pid", "state"),
    [
        ("loaded", "active", True, ProcessState.ALIVE),
        ("loaded", "failed", False, ProcessState.GONE),
        ("loaded", "activating", False, None),
        ("not-found", "inactive", False, None),
    ],
)
async def test_a_unit_leads_to_its_main_process(tmp_path, monkeypatch, load, active, has_pid, state):
    """systemctl is played by a program that prints what it prints: no systemd runs on a test machine."""
    program = tmp_path / "systemctl"
    text = SYSTEMCTL.format(python=sys.executable, load=load, active=active, pid=os.getpid() if has_pid else 0)
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = await ProcessFinder(StateLayer(systemd_unit="vllm.service")).find()
    if state is None:
        assert isinstance(found, Unread)
    else:
        assert found.process.state is state


KMSG = (
    "4,1201,100000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
    " SUBSYSTEM=pci\n"
    "6,1202,100000500,-;usb 1-1: new device\n"
    "4,1203,200000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=88, name=python, MMU fault\n"
)


async def test_an_xid_is_a_witness_for_ten_minutes_and_a_programs_own_fault_is_none(tmp_path):
    (tmp_path / "kmsg").write_text(KMSG.split("\n ")[0] + "\n")
    log = KernelLog(tmp_path / "kmsg")
    [witness] = await log.read(160.0)
    assert (witness.kind, witness.seen_seconds_ago) == (WitnessKind.XID, 60.0)
    assert "79" in witness.detail
    assert len(await log.read(699.0)) == 1
    assert await log.read(701.0) == ()
    (tmp_path / "kmsg2").write_text(KMSG.splitlines()[3] + "\n")
    assert await KernelLog(tmp_path / "kmsg2").read(210.0) == ()


async def test_a_kernel_log_that_may_not_be_read_is_said_and_is_no_witness(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    log = KernelLog(tmp_path / "kmsg")
    assert await log.read(1.0) == ()
    assert "journalctl" in log.why_unreadable
