"""The command line: every command has its help, and `run` loads nothing that only others need."""

import subprocess
import sys

import pytest

from tests.agent.command import run_command


def test_the_help_names_every_command():
    result = run_command("--help")
    assert result.exit_code == 0
    for name in ("accept-gpus", "check", "once", "run"):
        assert f"\n  {name} " in result.output


@pytest.mark.parametrize("name", ["accept-gpus", "check", "once", "run"])
def test_every_command_explains_itself(name):
    result = run_command(name, "--help")
    assert result.exit_code == 0
    assert "--config" in result.output


def test_a_command_that_does_not_exist_is_refused():
    result = run_command("reboot-everything")
    assert result.exit_code == 2
    assert "No such command" in result.output


def test_run_does_not_load_what_only_other_commands_need():
    probe = "import agent.__main__, agent.run, agent.config_file, sys; print('\\n'.join(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "agent.sample" in loaded
    assert not loaded & {
        "agent.once",
        "agent.check",
        "agent.accept_gpus",
        "agent.collectors.nvml",
        "pynvml",
        "sqlalchemy",
    }
    assert not {name for name in loaded if name.split(".")[0] in ("bot", "demo", "nkeys")}
