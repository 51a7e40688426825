"""The command line: every command has its help, and `run` loads nothing that only others need."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from agent.__main__ import main
from bot.__main__ import cli
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


@pytest.mark.parametrize("group", [main, cli])
def test_the_help_cuts_no_sentence_of_a_command(group):
    for option in ("--help", "-h"):
        told = CliRunner().invoke(group, [option])
        assert told.exit_code == 0
        assert "..." not in told.output.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("name", "usage"),
    [("why", "NODE GPU|RUNNER [TIME]"), ("ack", "ID"), ("claim", "NODE GPU|all DURATION [REASON]")],
)
def test_the_help_says_what_may_be_typed(name, usage):
    assert f"{name} [OPTIONS] {usage}\n" in CliRunner().invoke(cli, [name, "--help"]).output


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
