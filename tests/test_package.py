"""What `python -m build` makes is all that a machine needs: it is installed into an empty environment and started."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.nats_server import free_port
from tests.packages import PACKAGES, ROOT, SDIST, VERSION, WHEEL, build
from tests.programs import started


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(folder / "source", folder)
    return folder


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory) -> Path:
    """The `bin` of an environment that holds our wheel alone; what it depends on is borrowed from the tests' own."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", dist / WHEEL)
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "bin" / "nats-server").symlink_to(Path(sysconfig.get_path("scripts")) / "nats-server")
    return folder / "bin"


def run(*command: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=100, check=False, **more)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def ours(names: Iterator[str] | list[str]) -> set[str]:
    return {name for name in names if name.split("/")[0] in PACKAGES and not name.endswith("/")}


def in_checkout() -> set[str]:
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(dist):
    names = zipfile.ZipFile(dist / WHEEL).namelist()
    assert ours(names) == in_checkout()
    assert {name.split("/")[0] for name in names} == {*PACKAGES, f"gpu_oncall-{VERSION}.dist-info"}


def test_the_sdist_holds_what_builds_and_explains_it_and_no_link_that_leads_nowhere(dist):
    top = f"gpu_oncall-{VERSION}/"
    with tarfile.open(dist / SDIST) as archive:
        members = archive.getmembers()
    names = {member.name.removeprefix(top) for member in members if member.isfile()}
    assert not [member.name for member in members if member.issym() or member.islnk()]
    assert ours(list(names)) == in_checkout()
    assert {"config.yaml", "README.md", "CHANGELOG.md", "docs/install.md", "requirements/bot.txt"} <= names
    assert "deploy/systemd/gpu-oncall.service" in names
    assert not [name for name in names if name.startswith("tests/")]


@pytest.mark.parametrize(
    ("program", "group"), [("gpu-oncall", "bot.__main__:cli"), ("gpu-oncall-agent", "agent.__main__:main")]
)
def test_both_programs_tell_their_version_and_have_all_their_commands(installed, program, group, tmp_path):
    assert VERSION in run(installed / program, "--version", cwd=tmp_path).stdout
    module, _, name = group.partition(":")
    every = "all(group.get_command(None, one) for one in group.list_commands(None))"
    code = f"from {module} import {name} as group; print({every})"
    assert run(installed / "python", "-c", code, cwd=tmp_path).stdout == "True\n"


def test_it_runs_our_files_and_not_the_checkouts(installed, tmp_path):
    code = "import agent, bot, wire, demo; print(agent.__file__, bot.__file__, wire.__file__, demo.__file__)"
    for path in run(installed / "python", "-c", code, cwd=tmp_path).stdout.split():
        assert path.startswith(str(installed.parent)), path


async def test_init_agent_and_bot_start_from_the_wheel_alone(installed, tmp_path):
    run(installed / "gpu-oncall", "init", "oncall", cwd=tmp_path)
    config = tmp_path / "oncall" / "config.yaml"
    _move_to_free_ports(config)
    async with started([installed / "gpu-oncall", "run", "--config", config], tmp_path) as bot:
        await bot.says("bot runs")
        async with started([installed / "gpu-oncall-agent", "run", "--config", config], tmp_path) as agent:
            await agent.says("agent runs")
            await agent.says("bus connected")
            for program, well in (("gpu-oncall", "ok"), ("gpu-oncall-agent", "an agent runs; whether")):
                assert run(installed / program, "healthy", "--config", config).stdout.startswith(well)
    for program in ("gpu-oncall", "gpu-oncall-agent"):
        with pytest.raises(AssertionError, match=r"no (bot|agent) runs"):
            run(installed / program, "healthy", "--config", config)


def _move_to_free_ports(config: Path) -> None:
    """And a bot that needs no Slack."""
    document = yaml.safe_load(config.read_text())
    embedded = document["bot"]["bus"]["embedded"]
    embedded.update(listen=f"127.0.0.1:{free_port()}", monitor=f"127.0.0.1:{free_port()}")
    document["agent"]["bus"]["servers"] = [f"tls://{embedded['listen']}"]
    document["bot"].update(mode="shadow", metrics={"listen": f"127.0.0.1:{free_port()}"})
    config.write_text(yaml.safe_dump(document))


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["agent", "bot", "k8s"])
def test_the_pinned_requirements_alone_are_enough(dist, extra, tmp_path):
    """Asks the package index: nothing is borrowed here."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    requirements = ROOT / "requirements" / f"{extra}.txt"
    run(*pip, "--require-hashes", "--only-binary", ":all:", "-r", requirements, env={**os.environ})
    run(*pip, "--no-deps", "--no-index", dist / WHEEL)
    run(python, "-m", "pip", "check")
    program = "gpu-oncall" if extra == "bot" else "gpu-oncall-agent"
    assert VERSION in run(tmp_path / "venv/bin" / program, "--version", cwd=tmp_path).stdout
