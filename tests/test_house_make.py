"""The Makefile and the requirements: a fresh machine gets exactly what was checked, and a clear word otherwise."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nats_server import until

ROOT = Path(__file__).parents[1]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make` as on a machine where nothing is installed yet."""
    for part in ("Makefile", "pyproject.toml", "requirements"):
        source, target = ROOT / part, folder / part
        shutil.copytree(source, target, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, target)
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )


def fake_python(folder: Path, script: str) -> str:
    path = folder / "fake-python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"PYTHON={path}"


def test_an_old_python_is_told_with_what_to_do(tmp_path):
    done = make(tmp_path, "test", fake_python(tmp_path, "exit 1"))
    assert done.returncode != 0
    assert "gpu-oncall needs Python 3.11 or newer" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_missing_venv_is_told_with_what_to_do(tmp_path):
    done = make(tmp_path, "test", fake_python(tmp_path, 'case "$2" in *venv*) exit 1;; esac'))
    assert done.returncode != 0
    assert "has no venv: install it (Debian: apt install python3-venv)" in done.stderr
    assert not (tmp_path / ".venv").exists()


async def test_ctrl_c_while_the_environment_is_made_is_no_traceback(tmp_path):
    make(tmp_path, "help")
    started = subprocess.Popen(
        ["make", "test", f"PYTHON={sys.executable}"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    await until((tmp_path / ".venv/pyvenv.cfg").exists, "the beginning of the environment")
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does, to all of them
    out, said = started.communicate(timeout=60)
    assert started.returncode != 0
    assert "Traceback" not in out + said
    assert all(line.startswith("make: ***") for line in said.splitlines()), said
    assert not (tmp_path / ".venv/.ready").exists()


def ready_environment(folder: Path, script: str) -> Path:
    """A `.venv` that was ready once; its Python runs the script now."""
    make(folder, "help")
    ready = folder / ".venv/.ready"
    (folder / ".venv/bin").mkdir(parents=True)
    ready.touch()
    python = folder / ".venv/bin/python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return ready


def test_an_environment_that_is_ready_is_made_anew_only_when_requirements_or_pyproject_change(tmp_path):
    ready = ready_environment(tmp_path, f"echo {tmp_path}/agent")
    assert _would_set_up(tmp_path) is False
    newer = ready.stat().st_mtime + 10
    for part in ("requirements/dev.txt", "pyproject.toml"):
        os.utime(tmp_path / part, (newer, newer))
        assert _would_set_up(tmp_path) is True
        os.utime(tmp_path / part, (newer - 20, newer - 20))


def _would_set_up(folder: Path) -> bool:
    done = subprocess.run(
        ["make", "-n", "test"], cwd=folder, env={"PATH": os.environ["PATH"]}, text=True, capture_output=True, check=True
    )
    return "pip install" in done.stdout


@pytest.mark.parametrize("script", ["exit 1", "echo /of/another/checkout/agent"])
def test_an_environment_of_another_python_or_checkout_is_made_anew(tmp_path, script):
    ready_environment(tmp_path, script)
    assert _would_set_up(tmp_path) is True


def test_an_environment_whose_python_is_gone_is_made_anew(tmp_path):
    ready_environment(tmp_path, f"echo {tmp_path}/agent")
    (tmp_path / ".venv/bin/python").unlink()
    assert _would_set_up(tmp_path) is True


def test_nothing_is_left_of_an_environment_that_does_not_work_or_was_not_finished(tmp_path):
    ready = ready_environment(tmp_path, "exit 1")
    make(tmp_path, "test", fake_python(tmp_path, 'test "$3" != .venv'))
    assert not ready.parent.exists()
    ready_environment(tmp_path, f"echo {tmp_path}/agent").unlink()
    make(tmp_path, "test", fake_python(tmp_path, 'test "$3" != .venv'))
    assert not ready.parent.exists()


def test_an_environment_that_works_stays_when_requirements_change_but_is_not_ready_before_they_are_there(tmp_path):
    ready = ready_environment(tmp_path, f"echo {tmp_path}/agent")
    os.utime(ready, (0, 0))
    make(tmp_path, "test", fake_python(tmp_path, 'test "$3" != .venv'))
    assert ready.parent.exists()
    assert not ready.exists()


def test_an_environment_behind_a_link_belongs_to_somebody_else(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    ready = ready_environment(tmp_path, "exit 1")
    (here / ".venv").symlink_to(ready.parent)
    make(here, "test", fake_python(tmp_path, 'test "$3" != .venv'))
    assert not (here / ".venv").is_symlink()
    assert ready.exists()


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "scale", "soak", "fuzz", "chaos"])
def test_every_target_prepares_its_own_environment_first(tmp_path, target):
    done = make(tmp_path, "-n", target)
    assert done.returncode == 0, done.stderr
    assert "--require-hashes --only-binary :all: -r requirements/dev.txt" in done.stdout


def test_ci_runs_what_people_run():
    script = (ROOT / ".ci/run").read_text()
    assert re.findall(r"^make (\w+)$", script, re.MULTILINE) == ["lint", "test"]
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_requirements_are_pinned_with_hashes_and_name_no_index(path):
    text = path.read_text()
    pins = re.split(r"^(?=\S)", re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    assert pins
    for pin in pins:
        assert re.match(r"[A-Za-z0-9_.-]+(\[.*\])?==\S+ ", pin), pin
        assert "--hash=sha256:" in pin
    assert "index-url" not in text
    assert "://" not in text


@pytest.mark.parametrize("name", ["agent", "bot", "dev", "k8s"])
def test_everything_that_is_wanted_is_pinned(name):
    wanted = re.findall(r"^([A-Za-z][\w-]*)", (ROOT / f"requirements/{name}.in").read_text(), re.MULTILINE)
    pinned = re.findall(r"^([a-z0-9][\w.-]*)", (ROOT / f"requirements/{name}.txt").read_text(), re.MULTILINE)
    canonical = {pin.lower().replace("_", "-") for pin in pinned}
    assert {want.lower().replace("_", "-") for want in wanted} <= canonical
