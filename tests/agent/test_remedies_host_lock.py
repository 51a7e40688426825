"""The lock of a host: one holder at a time, free again however the holder ends, and no link is followed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.remedies.host_lock import HostBusyError, HostLock
from tests.root import only_root

_HOLDER = """
import sys
from pathlib import Path
from agent.remedies.host_lock import HostLock
HostLock.take(lock := HostLock(Path(sys.argv[1])))
print("held", flush=True)
input()
"""


def test_two_agents_of_one_host_never_hold_it_at_once(tmp_path: Path) -> None:
    one, other = HostLock(tmp_path / "lock"), HostLock(tmp_path / "lock")
    one.take()
    with pytest.raises(HostBusyError, match="another agent"):
        other.take()
    one.release()
    other.take()
    other.release()
    other.release()


def test_a_holder_that_is_killed_lets_go(tmp_path: Path) -> None:
    held = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, tmp_path / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with held:
        assert held.stdout is not None
        assert held.stdout.readline() == b"held\n"
        with pytest.raises(HostBusyError):
            HostLock(tmp_path / "lock").take()
        held.kill()
    (lock := HostLock(tmp_path / "lock")).take()
    lock.release()


def test_nobody_else_can_open_the_file_and_hold_it(tmp_path: Path) -> None:
    (lock := HostLock(tmp_path / "lock")).take()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_a_file_that_root_made_for_several_agents_is_shared(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(mode=0o444)
    (lock := HostLock(tmp_path / "lock")).take()
    lock.release()


@only_root
def test_a_file_of_another_user_is_not_used_since_that_user_could_hold_it(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    os.chown(tmp_path / "lock", 12345, 12345)
    with pytest.raises(HostBusyError, match=r"belongs to another user \(uid 12345\): remove it"):
        HostLock(tmp_path / "lock").take()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "nowhere"])
def test_what_is_no_plain_file_lets_nothing_begin(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock"
    if kind == "link":
        path.symlink_to(tmp_path / "precious")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "none" / "lock"
    with pytest.raises(HostBusyError, match="lock of this host"):
        HostLock(path).take()
    assert not (tmp_path / "precious").exists()
