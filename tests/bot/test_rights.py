"""Who may do what, on the real server in TLS: a node with bad intentions reaches nothing but its own subjects."""

import asyncio
import logging
import ssl
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from bot import clock
from bot.broker.authority import RENEW_BEFORE, SERVER_LIFE, make_authority, renew_certificate, tls_files
from bot.broker.rights_check import Bus
from bot.broker.rights_check import attempts as tried
from bot.bus_command import bus as bus_command
from tests.nats_server import NatsServer, connected, stream_bodies, until
from tests.tls_bus import bot_config, new_node, running_bus
from wire import nkey, subjects
from wire.acks import Ack, Failure, FailureKind
from wire.configfile import ConfigError, Duration
from wire.credentials import read_seed
from wire.link import Link

A, B = "node-a", "node-b"
SECOND = Duration(seconds=5)


@pytest.fixture
async def bus(tmp_path):
    config = bot_config(tmp_path / "bot")
    seeds = {name: new_node(config, name) for name in (A, B)}
    async with running_bus(config) as bus:
        bus.seeds = seeds
        yield bus


async def test_every_right_and_every_missing_right_is_as_the_table_says(bus):
    asked = Bus(bus.server.url, bus.ca_file, read_seed(bus.config.key_file()), bus.config.data_dir)
    found = [attempt async for attempt in tried(asked, A)]
    assert [attempt for attempt in found if not attempt.is_well] == []
    assert len(found) > 40
    assert (await bus.link.jetstream().stream_info("OBS")).state.messages == 0


HOSTILE_REPLIES = [
    subjects.observations(B),
    subjects.heartbeat(B),
    "$JS.API.STREAM.PURGE.OBS",
    "$JS.API.STREAM.DELETE.OBS",
    "$JS.API.CONSUMER.DELETE.OBS.bot",
    "_INBOX_bot.x",
    f"_INBOX_{B}.x",
]


async def test_reply_subjects_of_a_node_write_nothing_elsewhere(bus):
    heard: list[str] = []

    async def hear(message) -> None:
        heard.append(message.subject)

    await bus.link.subscribe(subjects.HEARTBEATS, hear)
    async with bus.visit(bus.seeds[A], A) as node:
        for number, reply in enumerate(HOSTILE_REPLIES):
            await node.client.publish(subjects.observations(A), b"%d" % number, reply=reply)
            await node.client.publish(subjects.heartbeat(A), b"%d" % number, reply=reply)
        await node.client.flush(timeout=20)
        await until(lambda: len(heard) >= len(HOSTILE_REPLIES), "its heartbeats")
    js = bus.link.jetstream()
    await until(lambda: _messages(js, len(HOSTILE_REPLIES)), "its own observations")
    assert await stream_bodies(js) == [b"%d" % number for number in range(len(HOSTILE_REPLIES))]
    assert set(heard) == {subjects.heartbeat(A)}
    assert (await js.consumer_info("OBS", "bot")).name == "bot"


async def _messages(js, count: int) -> bool:
    return (await js.stream_info("OBS")).state.messages == count


@pytest.mark.parametrize("headers", [{"Nats-Rollup": "all"}, {"Nats-TTL": "1s"}, {"Nats-Schedule": "@every 1s"}])
async def test_headers_that_would_change_the_stream_are_refused(bus, headers):
    async with bus.visit(bus.seeds[A], A) as node:
        answer = await node.client.request(subjects.observations(A), b"x", timeout=20, headers=headers)
    assert b'"error"' in answer.data
    assert (await bus.link.jetstream().stream_info("OBS")).state.messages == 0


async def test_a_guessed_message_id_of_another_node_swallows_nothing(bus):
    """A message's id holds the spool's secret epoch, so what another can guess is not it."""
    async with bus.visit(bus.seeds[A], A) as node:
        for guess in (f"{B}.1", f"{B}.{'0' * 32}.1", subjects.message_id(B, "epoch", 1)):
            await node.client.request(subjects.observations(A), b"x", timeout=20, headers={"Nats-Msg-Id": guess})
    async with connected(bus.node_link(B, bus.seeds[B])) as link:
        message_id = subjects.message_id(B, "5f1d7a84c0e94b6e", 1)
        ack = await link.publish_acked(subjects.observations(B), b"mine", message_id, SECOND)
    assert isinstance(ack, Ack)
    assert not ack.duplicate


async def test_a_message_that_is_too_large_ends_its_own_connection_and_no_other(bus):
    async with connected(bus.node_link(B, bus.seeds[B])) as link:
        async with bus.visit(bus.seeds[A], A) as node:
            node.client._max_payload = 1 << 20  # a client that does not keep to what the server says
            await node.client.publish(subjects.observations(A), b"x" * 70_000)
            await until(lambda: not node.client.is_connected, "the end of its connection")
        assert (await link.publish_acked(subjects.observations(B), b"x", "b.e.1", SECOND)) == Ack("OBS", 1)
        refused = await link.publish_acked(subjects.observations(B), b"x" * 70_000, "b.e.2", SECOND)
        assert isinstance(refused, Failure)
        assert refused.kind is FailureKind.TOO_LARGE
        assert link.is_connected


async def test_a_server_that_greets_in_clear_gets_not_one_byte(bus, tmp_path, caplog):
    """TLS stripping: what stands between us greets without TLS, and hopes that we answer."""
    heard = bytearray()

    async def strip(reader, writer):
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":65536,"nonce":"abc"}\r\n')
        heard.extend(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(strip, "127.0.0.1", 0)
    url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    link = Link([url], bus.seeds[A], subjects.inbox(A), A, ca_file=bus.ca_file)
    await link.start()
    await until(lambda: "bus not reachable" in caplog.text and heard, "a word about it")
    assert not link.is_connected
    await link.close()
    server.close()
    await server.wait_closed()
    assert b"CONNECT" not in heard


async def test_a_server_without_tls_is_not_spoken_to(bus, tmp_path, caplog):
    async with NatsServer(tmp_path / "plain", [A]) as plain:
        url = plain.url.replace("nats://", "tls://")
        link = Link([url], plain.seeds[A], subjects.inbox(A), A, ca_file=bus.ca_file)
        await link.start()
        try:
            await until(lambda: "bus not reachable" in caplog.text, "a word about it")
            assert not link.is_connected
        finally:
            await link.close()


async def test_the_servers_name_is_checked(bus, caplog):
    """Reached by a name that its certificate holds, and by an address that it does not."""
    named = Link([bus.server.url.replace("127.0.0.1", "localhost")], bus.seeds[A], "_INBOX_a", A, ca_file=bus.ca_file)
    await named.start()
    await asyncio.wait_for(named.wait_connected(), 30)
    await named.close()
    async with forwarded(bus, "127.0.0.2") as url:
        link = Link([url], bus.seeds[A], subjects.inbox(A), A, ca_file=bus.ca_file)
        await link.start()
        await until(lambda: "the server's certificate is refused: IP address mismatch" in caplog.text, "a refusal")
        assert not link.is_connected
        await link.close()


@asynccontextmanager
async def forwarded(bus, host: str):
    """The same server behind another address."""

    async def pump(reader, writer) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def forward(reader, writer) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer), return_exceptions=True)

    port = int(bus.server.url.rpartition(":")[2])
    server = await asyncio.start_server(forward, host, 0)
    try:
        yield f"tls://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


async def test_another_authority_is_not_believed(bus, tmp_path, caplog):
    make_authority(tmp_path / "other", clock.now())
    ca_file = tls_files(tmp_path / "other").ca
    link = Link([bus.server.url], bus.seeds[A], subjects.inbox(A), A, ca_file=ca_file)
    await link.start()
    await until(lambda: "the server's certificate is refused" in caplog.text, "a word about it")
    assert not link.is_connected
    await link.close()


async def test_a_new_certificate_counts_without_ending_a_connection(bus):
    async with connected(bus.node_link(A, bus.seeds[A])) as link:
        before = await served_certificate(bus)
        tls_files(bus.config.data_dir).server.unlink()
        assert bus.server.renew_certificate()
        await bus.server.apply(again=True)
        assert await served_certificate(bus) != before
        assert link.is_connected
        assert await link.publish_acked(subjects.observations(A), b"x", "a.e.1", SECOND) == Ack("OBS", 1)


async def served_certificate(bus) -> bytes:
    host, port = bus.config.bus.embedded.listen.split(":")
    context = ssl.create_default_context(cafile=bus.ca_file)
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()


def test_a_certificate_is_renewed_a_month_before_it_ends_and_when_its_names_change(tmp_path):
    now = clock.now()
    assert renew_certificate(tmp_path, ["bot-host", "10.0.0.5"], now)
    assert not renew_certificate(tmp_path, ["10.0.0.5", "bot-host"], now)
    assert not renew_certificate(tmp_path, ["bot-host", "10.0.0.5"], now + SERVER_LIFE - RENEW_BEFORE - SECOND)
    assert renew_certificate(tmp_path, ["bot-host", "10.0.0.5"], now + SERVER_LIFE - RENEW_BEFORE + SECOND)
    assert renew_certificate(tmp_path, ["bot-host"], now)
    files = tls_files(tmp_path)
    assert [path.stat().st_mode & 0o777 for path in (files.server, files.ca_key)] == [0o600, 0o600]
    files.server.write_text("broken")
    assert renew_certificate(tmp_path, ["bot-host"], now)
    files.ca_key.write_text("broken")
    files.server.unlink()
    with pytest.raises(ConfigError, match=r"cannot be used: .*put back ca.pem and ca.key from a backup"):
        renew_certificate(tmp_path, ["bot-host"], now)


async def test_the_command_proves_all_of_it_and_says_so(bus, tmp_path, caplog):
    """As the terminal does, beside the running bot, whose log does not call it trouble."""
    caplog.clear()
    file = tmp_path / "config.yaml"
    embedded = bus.config.bus.embedded
    file.write_text(
        f"bot: {{data_dir: {bus.config.data_dir}, bus: {{embedded: "
        f"{{listen: '{embedded.listen}', monitor: '{embedded.monitor}'}}}}}}\n"
    )
    told = await asyncio.to_thread(CliRunner().invoke, bus_command, ["check", "--all", "--config", str(file)])
    assert told.exit_code == 0, told.output
    assert "ok      a node may send its own observations\n" in told.output
    assert f"ok      a node may not say gpuoncall.obs.{A}\n" in told.output
    assert ", 0 not as they should be." in told.output
    async with bus.visit(bus.seeds[A], "check b") as node:  # anybody can call himself so
        await node.client.publish(subjects.heartbeat(B), b"x")
        await node.client.flush(timeout=20)
    await until(lambda: f'Publish Violation - Subject "{subjects.heartbeat(B)}"' in caplog.text, "what is no check")
    troubles = [one.getMessage() for one in caplog.records if one.levelno > logging.INFO]
    assert [nkey.public_key(bus.seeds[A]) in one for one in troubles] == [True]
