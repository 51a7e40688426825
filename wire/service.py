"""Makes a program a service of systemd: what is to be done is a list that can be shown, and then carried out."""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wire.files import unwritten, write_readable

UNITS = Path("/etc/systemd/system")
SYSTEMD_RUNS = Path("/run/systemd/system")
_OTHERS_MAY_ENTER = 0o001
_OTHERS_MAY_READ = 0o004


class ServiceError(Exception):
    """The service cannot be installed; the text says why and what to do."""


@dataclass(frozen=True)
class Write:
    """A file, mode 0644, replaced when it is there."""

    path: Path
    text: str

    def sentence(self) -> str:
        return f"write {self.path}"


@dataclass(frozen=True)
class Run:
    """A command of the system."""

    command: Sequence[str]

    def sentence(self) -> str:
        return " ".join(self.command)


Step = Write | Run


def unit_text(template: str, commands: Iterable[tuple[str, str]]) -> str:
    """The unit with its Exec lines replaced: (key, command) pairs, in the template's order."""
    wanted = iter(commands)
    return re.sub(r"^(Exec\w+)=.*$", lambda line: "{}={}".format(*next(wanted)), template, flags=re.MULTILINE)


def exec_line(*words: str | Path) -> str:
    """The words as systemd reads them: nothing in them is a variable, a specifier or the end of a word."""
    return " ".join(_quoted(str(word)) for word in words)


def _quoted(word: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_./:@=+-]+", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def plan(unit: str, text: str, user: str, home: Path, extra: Iterable[Step] = ()) -> list[Step]:
    """The user where there is none yet, the unit, what `extra` wants, and its start."""
    steps: list[Step] = []
    if not _exists(user):
        shell = "/usr/sbin/nologin"
        wanted = ("--system", "--user-group", "--no-create-home", "--home-dir", str(home), "--shell", shell)
        steps.append(Run(("useradd", *wanted, user)))
    steps += [Write(UNITS / unit, text), *extra]
    return [*steps, Run(("systemctl", "daemon-reload")), Run(("systemctl", "enable", "--now", unit))]


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def told(steps: Iterable[Step]) -> Iterator[str]:
    """Every step in words, files in full."""
    for step in steps:
        yield step.sentence()
        if isinstance(step, Write):
            yield from (f"    {line}".rstrip() for line in step.text.splitlines())


def carried_out(steps: Iterable[Step]) -> Iterator[str]:
    """Does each step and then yields its words. Raises ServiceError where one fails; those before it stay done."""
    for step in steps:
        _do(step)
        yield step.sentence()


def _do(step: Step) -> None:
    if isinstance(step, Write):
        _write(step)
        return
    try:
        done = subprocess.run(step.command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ServiceError(f"{step.sentence()}: {error.filename}: {error.strerror}") from error
    if done.returncode:
        raise ServiceError(f"{step.sentence()}: {(done.stderr or done.stdout).strip() or f'exit {done.returncode}'}")


def _write(step: Write) -> None:
    try:
        write_readable(step.path, step.text)
    except OSError as error:
        raise ServiceError(unwritten(error, "root")) from error


def program(name: str) -> Path:
    """The command beside the running Python. Raises ServiceError where the service's user could not start it."""
    path = Path(sys.prefix) / "bin" / name
    if not path.exists():
        raise ServiceError(
            f"there is no {path}: install gpu-oncall into an environment of its own and run it from there"
        )
    for part in (path, Path(sys.executable).resolve()):
        if (shut := _shut_folder(part)) is not None:
            raise ServiceError(
                f"{part} cannot be reached by another user, since {shut} lets nobody in: "
                "install gpu-oncall into a folder that everybody may read, such as /opt/gpu-oncall"
            )
    return path


def require_readable(path: Path) -> None:
    """Raises ServiceError where the service's user could not read the file."""
    try:
        is_open = path.stat().st_mode & _OTHERS_MAY_READ
    except OSError as error:
        raise ServiceError(f"{path} cannot be read: {error.strerror}") from error
    if (shut := _shut_folder(path)) is not None:
        raise ServiceError(
            f"{path} cannot be read by another user, since {shut} lets nobody in: move it to /etc/gpu-oncall"
        )
    if not is_open:
        raise ServiceError(f"{path} cannot be read by another user: chmod 644 {path} (no secret belongs into it)")


def _shut_folder(path: Path) -> Path | None:
    """The first folder on the way to `path` that other users may not enter."""
    return next((p for p in reversed(path.parents) if not p.stat().st_mode & _OTHERS_MAY_ENTER), None)


def require_systemd() -> None:
    """Raises ServiceError unless root installs on a machine that systemd runs."""
    if not SYSTEMD_RUNS.is_dir() or shutil.which("systemctl") is None:
        raise ServiceError("this machine is not run by systemd: --dry-run shows what would be done elsewhere")
    if os.geteuid() != 0:
        raise ServiceError("only root may install a service: run it with sudo, or with --dry-run to see what it does")
