"""`gpu-oncall init` with answers: from options, from a person at a terminal, and from nobody."""

import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner

import agent.config
import bot.config
from bot.__main__ import cli
from bot.init import ANNOTATED
from bot.init_answers import NOTHING, Answers, filled_in
from wire.configfile import ConfigError

CHANNEL = "C0GPUS12345"
SERVERS = ("tls://nats-1:4222", "tls://nats-2:4222")


def invoke(*arguments):
    return CliRunner().invoke(cli, ["init", *map(str, arguments)])


def both(folder):
    return agent.config.load(folder / "config.yaml"), bot.config.load(folder / "config.yaml")


def test_without_a_terminal_it_asks_nothing_and_makes_what_can_run(tmp_path):
    folder = tmp_path / "oncall"
    done = invoke(folder)
    assert done.exit_code == 0, done.output
    _, config = both(folder)
    assert (config.slack.channels.default, config.groups) == (None, [])
    assert config.bus.embedded_server() is not None
    assert "bot.slack.channels.default" in done.output
    assert "gpu-oncall slack manifest" in done.output


def test_options_go_into_the_config_and_its_comments_stay(tmp_path):
    folder = tmp_path / "oncall"
    done = invoke(folder, "--yes", "--channel", CHANNEL, "--approver", "U0ALICE", "--approver", "host:root")
    assert done.exit_code == 0, done.output
    _, config = both(folder)
    assert config.slack.channels.default == CHANNEL
    (group,) = config.groups
    assert (group.name, group.nodes, group.on_call) == ("default", ["*"], ["U0ALICE"])
    assert (group.approvers.users, group.approvers.hosts) == (["U0ALICE"], ["root"])
    text, annotated = (folder / "config.yaml").read_text(), ANNOTATED.read_text()
    assert text.count("# ") >= annotated.count("\n  # ")
    assert "bot.slack.channels.default" not in done.output


def test_a_bus_that_runs_already_is_named_for_bot_and_node_and_ours_is_commented_out(tmp_path):
    folder = tmp_path / "oncall"
    done = invoke(folder, "--yes", *(word for server in SERVERS for word in ("--server", server)))
    assert done.exit_code == 0, done.output
    node, config = both(folder)
    assert config.bus.servers == node.bus.servers == list(SERVERS)
    assert config.bus.embedded_server() is None
    assert "put the certificate authority of your servers there" in done.output
    assert "gpu-oncall bus print-config" in done.output


@pytest.mark.parametrize(
    "answers", [NOTHING, Answers(CHANNEL, ("host:root",), SERVERS, "ja"), Answers(approvers=("U0A",))]
)
def test_whatever_is_answered_the_config_loads_by_both_programs(tmp_path, answers):
    (tmp_path / "config.yaml").write_text(filled_in(ANNOTATED.read_text(), answers))
    both(tmp_path)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--channel", "#gpus", "wants a channel's id"),
        ("--approver", "alice", "wants users' ids"),
        ("--server", "nats://nats-1:4222", "use tls:// instead"),
        ("--server", "tls://user:pw@nats-1:4222", "password"),
    ],
)
def test_a_wrong_option_is_told_and_nothing_is_made(tmp_path, option, value, says):
    done = invoke(tmp_path / "oncall", option, value)
    assert done.exit_code == 2
    assert says in done.output
    assert not (tmp_path / "oncall").exists()


def test_answers_do_not_overwrite_a_config_that_is_there(tmp_path):
    invoke(tmp_path / "oncall")
    before = (tmp_path / "oncall" / "config.yaml").read_bytes()
    done = invoke(tmp_path / "oncall", "--channel", CHANNEL)
    assert isinstance(done.exception, ConfigError)
    assert "is not overwritten" in str(done.exception)
    assert (tmp_path / "oncall" / "config.yaml").read_bytes() == before


def test_a_person_at_a_terminal_is_asked_again_until_the_answer_can_be_used(tmp_path):
    folder = tmp_path / "oncall"
    main, side = pty.openpty()
    command = [sys.executable, "-m", "bot", "init", str(folder)]
    program = subprocess.Popen(command, stdin=side, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.close(side)
    for answer in ("#gpus", CHANNEL, "alice", "U0ALICE, U0BOB host:root", ""):
        os.write(main, answer.encode() + b"\n")
    output, _ = program.communicate(timeout=60)
    os.close(main)
    assert program.returncode == 0, output.decode()
    _, config = both(folder)
    assert config.slack.channels.default == CHANNEL
    assert config.groups[0].approvers.users == ["U0ALICE", "U0BOB"]
    assert config.bus.embedded_server() is not None
    assert b"wants a channel's id" in output
    assert b"alice: wants users' ids" in output
