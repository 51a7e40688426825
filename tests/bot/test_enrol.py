"""Nodes join in one line, once, within an hour, under their own name; the terminal lets them in and out meanwhile."""

import asyncio
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.join import join as join_command
from bot import clock, enrol
from bot.broker import nodes
from tests.nats_server import until
from tests.root import only_root
from tests.tls_bus import bot_config, new_node, running_bus
from wire import nkey, subjects
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.enrolment import (
    BadJoinError,
    BadTokenError,
    Token,
    decode_join,
    decode_token,
    encode_token,
    join_message,
)

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NAME = "gpu-07"


async def at_terminal(work, *arguments):
    """The terminal is another process, so it waits in a thread here."""
    return await asyncio.to_thread(work, *arguments)


async def join(token: str, folder: Path) -> tuple[int, str]:
    """The command's exit status and what it said."""
    options = ["-", "--state-dir", str(folder)]
    result = await asyncio.to_thread(lambda: CliRunner().invoke(join_command, options, input=token))
    return result.exit_code, result.output


async def is_let_in(bus, seed: str, name: str = NAME) -> bool:
    try:
        async with bus.visit(seed, name):
            return True
    except ConnectionError as error:
        return "authorization" not in str(error).lower()


async def test_a_node_joins_with_one_line_once_and_is_out_at_once_when_removed(tmp_path, caplog):
    async with running_bus(bot_config(tmp_path / "bot")) as bus:
        token, _ = await at_terminal(enrol.add, bus.config, NAME)
        status, told = await join(token, tmp_path / "node")
        assert (status, f"joined as node {NAME}" in told) == (0, True), told
        seed = read_seed(tmp_path / "node/node.nkey")
        assert (tmp_path / "node/ca.pem").read_text() == bus.config.ca_file().read_text()
        link = bus.node_link(NAME, seed)
        await link.start()
        await asyncio.wait_for(link.wait_connected(), 30)

        joined_long_ago(bus)
        status, told = await join(token, tmp_path / "other")
        assert status == 1
        assert f"the token for {NAME} is not accepted: it lives one hour and works once" in told
        assert not (tmp_path / "other/node.nkey").exists()
        assert caplog.text.count(f"join refused: its token does not count node={NAME} why=it was used, from=") == 1

        assert link.is_connected
        assert await at_terminal(lambda: [*enrol.remove(bus.config, NAME)]) == [f"removed  node {NAME}"]
        await until(lambda: not link.is_connected, "the end of its connection")
        await link.close()
        assert not await is_let_in(bus, seed)
    assert seed not in caplog.text
    assert token not in caplog.text


def joined_long_ago(bus) -> None:
    """Within a minute it is taken for the same join, which sends its message again."""
    os.utime(nodes.folder(bus.config.data_dir) / f"{NAME}.pub", (0, 0))


async def test_rotate_gives_a_new_key_and_the_old_one_counts_until_it_is_in(tmp_path):
    config = bot_config(tmp_path / "bot")
    old = new_node(config, NAME)
    async with running_bus(config) as bus:
        with pytest.raises(ConfigError, match="is there already: gpu-oncall node rotate gpu-07 gives it a new key"):
            await at_terminal(enrol.add, config, NAME)
        first, _ = await at_terminal(enrol.rotate, config, NAME)
        second, _ = await at_terminal(enrol.rotate, config, NAME)
        assert await is_let_in(bus, old)
        status, told = await join(first, tmp_path / "a")
        assert status == 1, told
        status, told = await join(second, tmp_path / "node")
        assert status == 0, told
        assert not await is_let_in(bus, old)
        assert await is_let_in(bus, read_seed(tmp_path / "node/node.nkey"))


@only_root
async def test_what_root_joins_anew_stays_readable_for_the_services_user(tmp_path):
    config, folder = bot_config(tmp_path / "bot"), tmp_path / "node"
    new_node(config, NAME)
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)  # as systemd leaves it to gpu-oncall-agent
    async with running_bus(config):
        token, _ = await at_terminal(enrol.rotate, config, NAME)
        status, told = await join(token, folder)
    assert status == 0, told
    assert {path.name: path.stat().st_uid for path in folder.iterdir()} == dict.fromkeys(
        ["node.nkey", "ca.pem", "bot.pub", "config.yaml"], 12345
    )


async def test_a_token_of_a_removed_node_and_one_for_another_name_are_refused_and_told(tmp_path, caplog):
    async with running_bus(bot_config(tmp_path / "bot")) as bus:
        text, _ = await at_terminal(enrol.add, bus.config, NAME)
        token = decode_token(text)
        other = Token("gpu-08", token.servers, token.ca, token.bot_key, token.join_seed)
        status, told = await join(encode_token(other), tmp_path / "node")
        assert (status, "the token was not made for gpu-08" in told) == (1, True), told
        await at_terminal(lambda: [*enrol.remove(bus.config, NAME)])
        status, told = await join(text, tmp_path / "node")
        assert (status, "is not accepted" in told) == (1, True), told
        await until(lambda: "node=gpu-07 why=the node was removed, from=" in caplog.text, "a word about it")
        assert nodes.read_nodes(bus.config.data_dir) == {}


async def test_what_the_terminal_does_without_a_bot_counts_from_the_next_start_on(tmp_path):
    config = bot_config(tmp_path / "bot")
    new_node(config, "gpu-01")
    token, notes = enrol.add(config, NAME)
    assert enrol.NOT_RUNNING in notes
    assert [line.split()[0] for line in enrol.listing(config)] == ["gpu-01", NAME]
    assert [*enrol.remove(config, "gpu-01")] == ["removed  node gpu-01", enrol.NOT_RUNNING]
    with pytest.raises(ConfigError, match="there is no node gpu-01"):
        [*enrol.remove(config, "gpu-01")]
    async with running_bus(config):
        status, told = await join(token, tmp_path / "node")
        assert status == 0, told
    assert [*enrol.listing(config)] == [f"{NAME:24} in"]


async def test_a_join_that_was_cut_off_goes_on_with_the_key_that_the_bot_has(tmp_path):
    async with running_bus(bot_config(tmp_path / "bot")) as bus:
        text, _ = await at_terminal(enrol.add, bus.config, NAME)
        seed = nkey.generate_seed()
        (tmp_path / "node").mkdir()
        nodes.take_join(
            bus.config.data_dir, NAME, nkey.public_key(decode_token(text).join_seed), nkey.public_key(seed), clock.now()
        )
        (tmp_path / "node/node.nkey.new").touch(mode=0o600)
        (tmp_path / "node/node.nkey.new").write_text(seed)
        status, told = await join(text, tmp_path / "node")
        assert status == 0, told
        assert read_seed(tmp_path / "node/node.nkey") == seed


def test_a_token_counts_for_an_hour_and_only_the_newest_one(tmp_path):
    first = nkey.public_key(nodes.open_join(tmp_path, NAME, NOW))
    assert nodes.why_not(tmp_path, NAME, first, NOW + timedelta(minutes=59)) == ""
    assert nodes.why_not(tmp_path, NAME, first, NOW + timedelta(hours=1)) == "its hour is over"
    assert nodes.NodeFiles(tmp_path).open_joins(NOW + timedelta(hours=1)) == {}
    second = nkey.public_key(nodes.open_join(tmp_path, NAME, NOW))
    key = nkey.public_key(nkey.generate_seed())
    assert nodes.take_join(tmp_path, NAME, first, key, NOW) == "a newer token was made"
    assert nodes.take_join(tmp_path, "gpu-08", second, key, NOW) == "it was not made for this node"
    assert nodes.take_join(tmp_path, NAME, second, key, NOW + timedelta(hours=2)) == "its hour is over"
    assert nodes.take_join(tmp_path, NAME, second, key, NOW) == ""
    assert nodes.take_join(tmp_path, NAME, second, key, NOW) == "it was used"
    third = nkey.public_key(nodes.open_join(tmp_path, "gpu-08", NOW))
    assert nodes.take_join(tmp_path, "gpu-08", third, key, NOW) == f"node {NAME} has this key already"


def test_no_node_may_have_a_name_that_is_taken_or_is_no_name(tmp_path):
    for name in (subjects.PROBE, "GPU", "*", ">", "a.b", ""):
        with pytest.raises(ValueError, match="is no node name"):
            nodes.open_join(tmp_path, name, NOW)


def token() -> Token:
    return Token(NAME, ["tls://127.0.0.1:1"], b"ca", bytes(32), nkey.generate_seed())


def test_a_join_message_counts_only_as_it_was_signed():
    known, key, other = token(), nkey.public_key(nkey.generate_seed()), nkey.public_key(nkey.generate_seed())
    body = join_message(known, key)
    assert decode_join(subjects.join(NAME), body).key == key
    for changed in (body.replace(key.encode(), other.encode()), body.replace(NAME.encode(), b"gpu-08"), b"{}", b"\xff"):
        with pytest.raises(BadJoinError):
            decode_join(subjects.join(NAME), changed)
    with pytest.raises(BadJoinError, match="it names node 'gpu-07', and came for gpu-08"):
        decode_join(subjects.join("gpu-08"), body)


@pytest.mark.parametrize(
    "change", [lambda text: text[:-9], lambda text: text[1:], lambda text: text[:60], lambda _: ""]
)
def test_a_damaged_token_is_told_and_never_shown(change):
    known = token()
    assert decode_token(encode_token(known) + "\n") == known
    with pytest.raises(BadTokenError) as error:
        decode_token(change(encode_token(known)))
    assert known.join_seed not in f"{error.value}{known!r}"


def test_the_token_leaves_the_process_list_at_once(tmp_path):
    """It is bound to a server that nobody runs, so the command waits while we look."""
    server = os.path.join(tmp_path, "node")
    text = encode_token(Token(NAME, ["nats://127.0.0.1:9"], b"", bytes(32), nkey.generate_seed()))
    process = subprocess.Popen(
        [sys.executable, "-m", "agent", "join", text, "--state-dir", server],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = clock.monotonic_seconds() + 20
        shown = ""
        while not re.search(r"join\0-\0", shown):
            assert clock.monotonic_seconds() < deadline, shown
            assert process.poll() is None
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
        assert text not in shown
    finally:
        process.kill()
        process.wait()
