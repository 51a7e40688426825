"""The embedded server, for real: what it lets through, what it survives, what it refuses."""

import asyncio
import base64
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from bot.broker.embedded import EmbeddedServer, Patience
from bot.broker.errors import BrokerError
from bot.broker.nodes import read_nodes, register_node
from bot.broker.stream import ensure_stream, reset_consumer
from bot.config import BotConfig, Bus, EmbeddedBus
from tests.nats_server import free_port
from tests.programs import is_alive
from wire import nkey, subjects
from wire.files import write_private

DEADLINE_SECONDS = 20.0
MAX_BYTES = 512 << 20
PATIENCE = Patience()
NODES = {name: nkey.generate_seed() for name in ("node-a", "node-b")}
BOT = nkey.generate_seed()


@pytest.fixture
def config(tmp_path) -> BotConfig:
    bus = EmbeddedBus(listen=f"127.0.0.1:{free_port()}", monitor=f"127.0.0.1:{free_port()}")
    config = BotConfig(data_dir=tmp_path, bus=Bus(embedded=bus, insecure=True))
    write_private(config.key_file(), BOT)
    for name, seed in NODES.items():
        register_node(tmp_path, name, nkey.public_key(seed))
    return config


@asynccontextmanager
async def running(config: BotConfig, patience: Patience = PATIENCE):
    server = EmbeddedServer(config, config.bus.embedded, patience)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def client(server: EmbeddedServer, seed: str, owner: str):
    errors: list[Exception] = []

    async def keep(error: Exception) -> None:
        errors.append(error)

    client = Client()
    client._public_nkey = nkey.public_key(seed)
    client.seen_errors = errors
    try:
        await client.connect(
            server.url,
            inbox_prefix=subjects.inbox(owner),
            signature_cb=lambda nonce: base64.b64encode(nkey.sign(seed, nonce.encode())),
            error_cb=keep,
            allow_reconnect=False,
            max_reconnect_attempts=1,
        )
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def both(config: BotConfig):
    """The bot's client and node-a's, on a running server."""
    async with (
        running(config) as server,
        client(server, BOT, "bot") as bot,
        client(server, NODES["node-a"], "node-a") as node,
    ):
        yield bot, node


async def until(condition, what: str):
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while not (found := condition()):
        assert asyncio.get_running_loop().time() < deadline, f"never: {what}"
        await asyncio.sleep(0.02)
    return found


async def test_a_node_may_say_its_own_and_nothing_else(config):
    async with both(config) as (bot, node):
        js = bot.jetstream()
        await ensure_stream(js, MAX_BYTES)
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def hear(message) -> None:
            heard.put_nowait(message.subject)

        await bot.subscribe(subjects.HEARTBEATS, cb=hear)
        await bot.flush()
        reply = await node.request(subjects.observations("node-a"), b"own", timeout=20)
        assert b'"stream":"OBS"' in reply.data
        await node.publish(subjects.heartbeat("node-a"), b"own")
        assert await asyncio.wait_for(heard.get(), 20) == subjects.heartbeat("node-a")
        refused = [
            subjects.observations("node-b"),
            subjects.heartbeat("node-b"),
            subjects.command("node-b"),
            "$JS.API.STREAM.PURGE.OBS",
            "$JS.API.STREAM.INFO.OBS",
            "_INBOX_bot.x",
        ]
        for subject in refused:
            await node.publish(subject, b"other")
        for subject in (subjects.OBSERVATIONS, subjects.command("node-b"), "_INBOX_node-b.>", "$SYS.>", ">"):
            await node.subscribe(subject)
        await node.flush()
        await until(lambda: len(node.seen_errors) == len(refused) + 5, "a refusal for each")
        assert all("permissions violation" in str(error) for error in node.seen_errors)
        assert (await js.stream_info("OBS")).state.messages == 1
        assert heard.empty()


async def test_a_reply_subject_that_a_node_chooses_writes_nothing_for_another(config):
    async with both(config) as (bot, node):
        js = bot.jetstream()
        await ensure_stream(js, MAX_BYTES)
        await node.publish(subjects.observations("node-a"), b"x", reply=subjects.observations("node-b"))
        await node.request(subjects.observations("node-a"), b"y", timeout=20)
        assert (await js.stream_info("OBS")).state.messages == 2


async def test_a_key_that_was_not_registered_is_kept_out(config):
    async with running(config) as server:
        with pytest.raises(Exception, match="Authorization"):
            async with client(server, nkey.generate_seed(), "node-c"):
                raise AssertionError("a stranger came in")


async def test_the_stream_is_made_as_designed_and_making_it_again_changes_only_what_differs(config):
    async with running(config) as server, client(server, BOT, "bot") as bot:
        js = bot.jetstream()
        first = await ensure_stream(js, MAX_BYTES)
        made = (await js.stream_info("OBS")).config
        assert (made.discard, made.retention, made.discard_new_per_subject) == ("new", "limits", True)
        assert (made.max_age, made.duplicate_window, made.deny_delete) == (7 * 86400, 3600, True)
        assert not made.allow_rollup_hdrs
        assert not made.allow_msg_ttl
        assert await ensure_stream(js, MAX_BYTES - 1) == first
        assert (await js.stream_info("OBS")).config.max_bytes == MAX_BYTES - 1
        consumer = (await js.consumer_info("OBS", "bot")).config
        assert (consumer.ack_policy, consumer.max_deliver, consumer.ack_wait) == ("explicit", -1, 60)
        assert first.last_seq == 0


async def fetched(subscription, count: int) -> list[int]:
    return [msg.metadata.sequence.stream for msg in await subscription.fetch(count, timeout=20)]


@pytest.mark.parametrize("refused", [False, True], ids=["reset", "reset refused, made anew"])
async def test_after_a_reset_old_messages_come_before_new_ones(config, refused, caplog):
    async with both(config) as (bot, node):
        js = bot.jetstream()
        await ensure_stream(js, MAX_BYTES)
        for body in b"123456":
            await node.request(subjects.observations("node-a"), bytes([body]), timeout=20)
        subscription = await js.pull_subscribe_bind(subjects.CONSUMER, subjects.STREAM)
        assert await fetched(subscription, 4) == [1, 2, 3, 4]
        if refused:  # below a consumer's own beginning the server refuses, as one does that does not know the request
            await js.delete_consumer("OBS", "bot")
            await js.add_consumer("OBS", durable_name="bot", deliver_policy="by_start_sequence", opt_start_seq=5)
        state = await reset_consumer(js, 3)
        assert (state.first_seq, state.last_seq) == (1, 6)
        subscription = await js.pull_subscribe_bind(subjects.CONSUMER, subjects.STREAM)
        assert await fetched(subscription, 4) == [3, 4, 5, 6]
        assert ("consumer made anew" in caplog.text) is refused
        assert await ensure_stream(js, MAX_BYTES) == state


async def test_a_position_beyond_the_end_is_brought_back_so_that_new_messages_are_seen(config):
    async with both(config) as (bot, node):
        js = bot.jetstream()
        await ensure_stream(js, MAX_BYTES)
        await reset_consumer(js, 1)
        await node.request(subjects.observations("node-a"), b"1", timeout=20)
        await reset_consumer(js, 10_000)
        await node.request(subjects.observations("node-a"), b"2", timeout=20)
        subscription = await js.pull_subscribe_bind(subjects.CONSUMER, subjects.STREAM)
        assert await fetched(subscription, 1) == [2]


async def test_a_killed_server_is_started_again_with_everything_in_it(config):
    async with running(config) as server:
        async with client(server, BOT, "bot") as bot, client(server, NODES["node-a"], "node-a") as node:
            before = await ensure_stream(bot.jetstream(), MAX_BYTES)
            await node.request(subjects.observations("node-a"), b"1", timeout=20)
        killed = server.pid
        os.kill(killed, signal.SIGKILL)
        await until(lambda: server.pid not in (None, killed), "a new server")
        await until(lambda: is_listening(config.bus.embedded.listen), "it listens")
        async with client(server, BOT, "bot") as bot:
            after = await ensure_stream(bot.jetstream(), MAX_BYTES)
        assert (after.created, after.last_seq) == (before.created, 1)


def is_listening(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def test_a_server_that_hangs_is_ended_and_started_again(config):
    patience = Patience(check_every_seconds=0.05, answer_seconds=0.2, failed_checks=3, stop_seconds=0.5)
    async with running(config, patience) as server:
        hung = server.pid
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: server.pid not in (None, hung), "a new server")
        assert not is_alive(hung)


async def test_a_stream_that_cannot_be_recovered_is_put_aside_and_said(config, caplog):
    async with running(config) as server, client(server, BOT, "bot") as bot:
        await ensure_stream(bot.jetstream(), MAX_BYTES)
    stream = config.data_dir / "nats/store/jetstream/CORE/streams/OBS"
    (stream / "meta.inf").write_text("broken")
    async with running(config) as server, client(server, BOT, "bot") as bot:
        with pytest.raises(NotFoundError):
            await bot.jetstream().stream_info("OBS")
        await ensure_stream(bot.jetstream(), MAX_BYTES)
    (aside,) = (config.data_dir / "nats/aside").iterdir()
    assert (aside / "meta.inf").read_text() == "broken"
    assert f"could not recover CORE > OBS, it starts empty; the old one lies in {aside}" in caplog.text


async def test_a_consumer_with_a_broken_state_is_put_aside_and_the_stream_stays(config):
    async with both(config) as (bot, node):
        await ensure_stream(bot.jetstream(), MAX_BYTES)
        await node.request(subjects.observations("node-a"), b"1", timeout=20)
        subscription = await bot.jetstream().pull_subscribe_bind(subjects.CONSUMER, subjects.STREAM)
        for message in await subscription.fetch(1, timeout=20):
            await message.ack_sync()
    (config.data_dir / "nats/store/jetstream/CORE/streams/OBS/obs/bot/o.dat").write_text("broken")
    async with running(config) as server, client(server, BOT, "bot") as bot:
        assert (await ensure_stream(bot.jetstream(), MAX_BYTES)).last_seq == 1
    (aside,) = (config.data_dir / "nats/aside").iterdir()
    assert (aside / "o.dat").read_text() == "broken"


async def test_a_thread_that_may_end_before_the_bot_does_must_not_start_the_server(config):
    with pytest.raises(RuntimeError, match="main thread"):
        await asyncio.to_thread(asyncio.run, EmbeddedServer(config, config.bus.embedded).start())


async def test_a_port_in_use_is_told_with_the_program_that_has_it(config):
    host, port = config.bus.embedded.listen.split(":")
    with socket.create_server((host, int(port))), pytest.raises(BrokerError) as error:
        async with running(config):
            raise AssertionError("two listen on one port")
    assert f"{config.bus.embedded.listen} is in use by " in str(error.value)
    assert f"(PID {os.getpid()}): stop it or choose another bus.embedded.listen in the config" in str(error.value)
    async with running(config):
        pass  # nothing of the failed start is left in the way


async def test_a_second_bot_on_the_same_data_dir_is_told_of_the_first(config):
    async with running(config):
        with pytest.raises(BrokerError, match=re.escape(f"another gpu-oncall (PID {os.getpid()}) runs on")):
            await EmbeddedServer(config, config.bus.embedded).start()


BOT_PROCESS = """
import asyncio, msgspec, sys
from bot.broker.embedded import EmbeddedServer
from bot.config import BotConfig
from wire.wanted import convert
async def main():
    config = msgspec.json.decode(sys.argv[1], type=BotConfig, dec_hook=convert)
    server = EmbeddedServer(config, config.bus.embedded)
    await server.start()
    print(server.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def start_bot(config: BotConfig) -> tuple[subprocess.Popen[str], int]:
    bus = config.bus.embedded
    text = (
        f'{{"data_dir": "{config.data_dir}", "bus": {{"insecure": true, '
        f'"embedded": {{"listen": "{bus.listen}", "monitor": "{bus.monitor}"}}}}}}'
    )
    root = Path(__file__).parents[2]
    bot = subprocess.Popen([sys.executable, "-c", BOT_PROCESS, text], stdout=subprocess.PIPE, text=True, cwd=root)
    assert bot.stdout is not None
    return bot, int(bot.stdout.readline())


async def test_kill_9_of_the_bot_ends_the_server_too(config):
    bot, server_pid = start_bot(config)
    assert is_alive(server_pid)
    bot.kill()
    bot.communicate()
    await until(lambda: not is_alive(server_pid), "the server's end")
    async with running(config):
        pass


async def test_a_server_left_behind_is_ended_at_the_next_start(config):
    async with running(config):
        conf = config.data_dir / "nats/server.conf"
    left = subprocess.Popen(
        [str(Path(sys.executable).with_name("nats-server")), "-c", str(conf)], stderr=subprocess.DEVNULL
    )
    try:
        await until(lambda: is_listening(config.bus.embedded.listen), "the one left behind listens")
        async with running(config) as server:
            assert server.pid != left.pid
            assert left.wait(timeout=20) is not None
    finally:
        left.kill()
        left.wait()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo nats-server: v2.9.10", "is nats-server 2.9.10: 2.14 or newer is needed"),
        ("echo hello", "is no nats-server"),
        (None, "cannot be run: No such file"),
    ],
)
async def test_another_program_than_a_new_enough_server_is_refused(config, tmp_path, script, sentence):
    program = tmp_path / "other"
    if script:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    other = replace(config, bus=replace(config.bus, nats_server=program))
    with pytest.raises(BrokerError, match=sentence):
        await EmbeddedServer(other, other.bus.embedded).start()


async def test_a_config_that_the_server_refuses_leaves_the_last_good_one(config):
    async with running(config):
        good = (config.data_dir / "nats/server.conf").read_bytes()
    program = config.data_dir / "refuses"
    program.write_text('#!/bin/sh\ncase "$1" in --version) echo v2.15.1;; *) echo no such field; exit 1;; esac\n')
    program.chmod(0o755)
    other = replace(config, bus=replace(config.bus, nats_server=program))
    with pytest.raises(BrokerError, match="the old one is kept: no such field"):
        await EmbeddedServer(other, other.bus.embedded).start()
    assert (config.data_dir / "nats/server.conf").read_bytes() == good


async def test_the_servers_files_are_for_their_owner_only_and_it_gets_none_of_our_secrets(config, monkeypatch):
    monkeypatch.setenv("SLACK_BOT_TOKEN", "hush")
    async with running(config) as server:
        assert (config.data_dir / "nats").stat().st_mode & 0o777 == 0o700
        assert (config.data_dir / "nats/server.conf").stat().st_mode & 0o777 == 0o600
        assert b"hush" not in Path(f"/proc/{server.pid}/environ").read_bytes()
        assert os.getsid(server.pid) == server.pid
        gone = server.pid
    assert not is_alive(gone)


def test_a_file_that_holds_no_key_keeps_only_its_own_node_away(tmp_path, caplog):
    key = nkey.public_key(NODES["node-a"])
    register_node(tmp_path, "node-a", key)
    nodes = tmp_path / "nodes"
    for name, text in {"node-b": "UBAD", "Node_C": key, "node-d": key, "node-e": f'{key}" }}'}.items():
        (nodes / f"{name}.pub").write_text(text)
    (nodes / "Node_C.pub").unlink()
    assert read_nodes(tmp_path) == {"node-a": key}
    assert caplog.text.count("node left out") == 3


@pytest.mark.parametrize(
    ("name", "key"), [("Node", nkey.public_key(BOT)), ("node", BOT), ("node", "U")], ids=["name", "seed", "no key"]
)
def test_a_node_with_a_bad_name_or_key_is_not_registered(tmp_path, name, key):
    with pytest.raises(ValueError, match=r"no node name|no public key") as error:
        register_node(tmp_path, name, key)
    assert BOT not in str(error.value)
    assert not (tmp_path / "nodes").exists()
