"""`gpu-oncall init`: what it makes works at once, and it never overwrites."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agent.config
import bot.config
from bot.broker.embedded import EmbeddedServer
from bot.broker.stream import ensure_stream
from bot.init import initialise, initialise_bot, next_steps
from tests.nats_server import free_port
from wire import subjects
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.link import Link


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a blank, so that quoting counts."""
    return tmp_path / "my gpus"


def test_what_it_makes_loads_by_both_programs_and_secrets_are_for_the_owner_only(folder):
    made = list(initialise(folder))
    assert all(line.startswith("made") for line in made)
    node, bot_side = agent.config.load(folder / "config.yaml"), bot.config.load(folder / "config.yaml")
    assert (node.state_dir, bot_side.data_dir) == (folder / "agent", folder / "bot")
    for key in (node.key_file(), bot_side.key_file()):
        assert key.stat().st_mode & 0o777 == 0o600
        assert read_seed(key) not in "\n".join(made)
    for private in (node.state_dir, bot_side.data_dir):
        assert private.stat().st_mode & 0o777 == 0o700


def test_running_it_twice_changes_nothing_and_says_so(folder):
    list(initialise(folder))
    before = contents(folder)
    assert all(line.startswith("kept") for line in initialise(folder))
    assert contents(folder) == before


def test_what_is_missing_is_made_anew_beside_what_is_kept(folder):
    list(initialise(folder))
    before = contents(folder)
    key = bot.config.load(folder / "config.yaml").key_file()
    key.unlink()
    assert [line for line in initialise(folder) if line.startswith("made")] == [f"made  {key} (secret)"]
    assert {path for path, content in contents(folder).items() if before[path] != content} == {str(key)}


def test_a_config_that_is_not_its_own_is_left_alone(tmp_path):
    shipped = (Path(__file__).parents[2] / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(shipped.replace("#node:", "node:"))
    with pytest.raises(ConfigError, match="keeps its data in /var/lib/gpu-oncall: leave it, and choose another folder"):
        list(initialise(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_a_node_registered_with_another_key_is_told_and_left(folder):
    list(initialise(folder))
    agent.config.load(folder / "config.yaml").key_file().unlink()
    with pytest.raises(ConfigError, match=r"is registered in .* with another key than the one it has"):
        list(initialise(folder))


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        list(initialise(tmp_path / "file" / "below"))


async def test_the_node_that_it_made_may_speak_for_itself_and_for_nobody_else(folder):
    list(initialise(folder))
    file = folder / "config.yaml"
    text = file.read_text()
    for port in ("4222", "8222"):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    listen = re.search(r"embedded:.*?listen: (\S+)", text, re.DOTALL)[1]
    text = re.sub(r"servers: .*", f"servers: [tls://{listen}]", text, count=1)
    file.write_text(text)
    node, bot_side = agent.config.load(file), bot.config.load(file)
    server = EmbeddedServer(bot_side, bot_side.bus.embedded_server())
    await server.start()
    bot_link = Link(
        [server.url], read_seed(bot_side.key_file()), subjects.inbox("bot"), "bot", ca_file=bot_side.ca_file()
    )
    link = Link(
        node.bus.servers, read_seed(node.key_file()), subjects.inbox(node.node), node.node, ca_file=node.ca_file()
    )
    try:
        await bot_link.start()
        await asyncio.wait_for(bot_link.wait_connected(), 30)
        await ensure_stream(bot_link.jetstream(), bot_side.bus.embedded_server().max_store)
        await link.start()
        await asyncio.wait_for(link.wait_connected(), 30)
        taken = [
            await link.request(subject, b"{}", bot.config.Duration(seconds=1))
            for subject in (subjects.observations(node.node), subjects.observations("another"))
        ]
        state = (await bot_link.jetstream().stream_info(subjects.STREAM)).state
    finally:
        await link.close()
        await bot_link.close()
        await server.stop()
    assert isinstance(taken[0], bytes)
    assert b'"stream":"OBS"' in taken[0]
    assert not isinstance(taken[1], bytes)
    assert state.messages == 1


def test_for_a_config_that_is_there_only_what_the_bot_needs_is_made_once(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(f"agent: {{node: gpu-01, state_dir: /nowhere}}\nbot: {{data_dir: {tmp_path}/data}}\n")
    lines = list(initialise_bot(file))
    assert all(line.startswith("made ") for line in lines)
    made = {str(path.relative_to(tmp_path / "data")) for path in (tmp_path / "data").rglob("*")}
    assert made >= {"bot.nkey", "orders.key", "tls/ca.pem", "tls/ca.key"}
    assert not (tmp_path / "data" / "nodes").exists()
    before = contents(tmp_path)
    assert all(line.startswith("kept ") for line in initialise_bot(file))
    assert contents(tmp_path) == before


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    run = [sys.executable, "-m", "bot", *arguments]
    return subprocess.run(
        run, cwd=cwd, env={"PYTHONPATH": root}, text=True, capture_output=True, timeout=60, check=False
    )


def test_the_command_says_what_comes_next(tmp_path):
    done = command("init", "here", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert next_steps(tmp_path / "here") in done.stdout
    assert f"gpu-oncall run --config {tmp_path}/here/config.yaml" in done.stdout
    assert "SLACK_BOT_TOKEN" in done.stdout


def test_trouble_is_one_sentence_without_a_traceback(tmp_path):
    (tmp_path / "config.yaml").write_text("bot: {candidates: {windows: 1}}\n")
    done = command("init", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"gpu-oncall: {tmp_path}/config.yaml:1: bot.")
    assert "Traceback" not in done.stderr


MAKE_ONE = "name another with --config, or make one with gpu-oncall init (on a node: gpu-oncall-agent join)\n"


def test_running_without_the_named_config_is_one_sentence_too(tmp_path):
    done = command("run", "--config", str(tmp_path / "absent.yaml"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gpu-oncall: {tmp_path}/absent.yaml: cannot be read: No such file or directory: " + MAKE_ONE


def test_a_node_cannot_be_added_before_there_is_a_bot_and_that_is_said(tmp_path):
    (tmp_path / "config.yaml").write_text(f"bot: {{data_dir: {tmp_path}/bot}}\n")
    done = command("node", "add", "gpu-01", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "No such file or directory: gpu-oncall init makes it; of servers of your own: bot.bus.ca\n"
    )


def test_the_bus_cannot_be_checked_before_the_bot_first_ran_and_that_is_said(tmp_path):
    command("init", "oncall", cwd=tmp_path)
    done = command("bus", "check", "--config", "oncall/config.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "probe.nkey is not there yet: the bot makes it at its first start" in done.stderr
