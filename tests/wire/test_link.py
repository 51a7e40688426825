"""The link to the real nats-server: it comes back after everything, and never believes that it is connected."""

import asyncio
import contextlib
import logging
import socket
from datetime import timedelta

import pytest

from tests.nats_server import NatsServer, connected, fast_link, free_port, stream_bodies, until
from wire import subjects
from wire.acks import Ack, Failure, FailureKind
from wire.configfile import ConfigError
from wire.dial import CONNECT_DEADLINE
from wire.link import Link, NotConnectedError, pause_seconds
from wire.nkey import generate_seed

A, B = "node-a", "node-b"
SECOND = timedelta(seconds=1)
BEFORE_IT_GIVES_UP_SECONDS = CONNECT_DEADLINE.total_seconds() / 2


@pytest.fixture
async def server(tmp_path):
    async with NatsServer(tmp_path / "nats", [A, B]) as server:
        yield server


async def publish(link: Link, body: bytes, seq: int, node: str = A, deadline: timedelta = SECOND) -> Ack | Failure:
    return await link.publish_acked(subjects.observations(node), body, f"{node}.epoch.{seq}", deadline)


async def published(link: Link, body: bytes, seq: int) -> Ack:
    return await until(lambda: _acked(link, body, seq), f"an acknowledgement of {seq}")


async def _acked(link: Link, body: bytes, seq: int) -> Ack | None:
    answer = await publish(link, body, seq)
    return answer if isinstance(answer, Ack) else None


async def test_a_published_report_is_in_the_stream_and_a_repeated_id_is_told_as_duplicate(server):
    async with server.bot() as bot, connected(server.node_link(A)) as link:
        assert await publish(link, b"one", 1) == Ack("OBS", 1)
        assert await publish(link, b"one again", 1) == Ack("OBS", 1, duplicate=True)
        assert await publish(link, b"two", 2) == Ack("OBS", 2)
        assert await stream_bodies(bot.jetstream()) == [b"one", b"two"]


async def test_nothing_is_published_while_there_is_no_connection(server):
    link = server.node_link(A)
    assert await publish(link, b"x", 1) == Failure(FailureKind.NOT_CONNECTED)
    assert not await link.publish_core(subjects.heartbeat(A), b"x")
    with pytest.raises(NotConnectedError):
        link.jetstream()


async def test_without_a_stream_the_failure_says_so_at_once(server):
    async with connected(server.node_link(A)) as link:
        assert (await publish(link, b"x", 1)).kind is FailureKind.NO_RESPONDERS


async def test_a_full_stream_is_told_apart_from_other_refusals(server):
    async with server.bot(per_node=2), connected(server.node_link(A)) as link:
        assert isinstance(await publish(link, b"x", 1), Ack)
        assert isinstance(await publish(link, b"x", 2), Ack)
        assert (await publish(link, b"x", 3)).kind is FailureKind.STREAM_FULL


async def test_a_message_that_the_server_would_hang_up_on_is_never_sent(server):
    async with server.bot(), connected(server.node_link(A)) as link:
        assert (await publish(link, b"x" * 65536, 1)).kind is FailureKind.TOO_LARGE
        assert isinstance(await publish(link, b"x" * 65024, 1), Ack)
        assert link.is_connected


async def test_a_node_cannot_publish_as_another_and_the_missing_right_is_told_once(server, caplog):
    async with server.bot() as bot, connected(server.node_link(A)) as link:
        for seq in (1, 2):
            answer = await publish(link, b"forged", seq, node=B, deadline=timedelta(seconds=0.2))
            assert answer.kind is FailureKind.TIMED_OUT
        assert await stream_bodies(bot.jetstream()) == []
    told = [record.message for record in caplog.records if "permissions violation" in record.message.lower()]
    assert len(told) == 1


async def test_the_link_comes_back_after_the_server_was_killed_and_says_each_once(server, caplog):
    async with server.bot():
        pass
    caplog.set_level(logging.INFO, "wire.link")
    async with connected(server.node_link(A)) as link:
        assert isinstance(await publish(link, b"x", 1), Ack)
        await server.kill()
        await until(lambda: not link.is_connected, "the loss is noticed")
        await until(lambda: "not reachable" in caplog.text, "that it is told")
        await server.start()
        await published(link, b"y", 2)
    told = [message for message in caplog.messages if message.startswith("bus")]
    assert [message.split(",")[0].split(" server")[0] for message in told] == [
        "bus connected",
        "bus connection lost",
        "bus not reachable",
        "bus connected",
    ]


async def test_three_unanswered_requests_end_a_connection_that_looks_alive(server):
    async with server.bot(), connected(server.node_link(A)) as link:
        server.freeze()
        for seq in range(3):
            assert link.is_connected
            answer = await publish(link, b"x", seq, deadline=timedelta(seconds=0.1))
            assert answer.kind is FailureKind.TIMED_OUT
        await until(lambda: not link.is_connected, "the link lets go of the frozen server")
        server.thaw()
        await published(link, b"y", 9)


async def test_a_server_that_takes_the_connection_and_says_nothing_blocks_nobody():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        link = fast_link([url], generate_seed(), "_INBOX_x", "x")
        await asyncio.wait_for(link.start(), BEFORE_IT_GIVES_UP_SECONDS)
        assert not link.is_connected
        assert await publish(link, b"x", 1) == Failure(FailureKind.NOT_CONNECTED)
        await asyncio.wait_for(link.close(), BEFORE_IT_GIVES_UP_SECONDS)


async def test_a_client_that_only_half_connected_is_thrown_away():
    """nats-py's connect returns as if all were well when the server's PING comes before its PONG."""
    accepted: list[asyncio.StreamWriter] = []

    async def ping_first(reader, writer):
        accepted.append(writer)
        writer.write(b'INFO {"max_payload": 65536}\r\nPING\r\n')
        await writer.drain()

    silent = await asyncio.start_server(ping_first, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    link = fast_link([f"nats://127.0.0.1:{port}"], generate_seed(), "_INBOX_x", "x")
    await link.start()
    await until(lambda: len(accepted) >= 3, "that it is tried again and again")
    assert not link.is_connected
    await link.close()
    for writer in accepted:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    silent.close()
    await silent.wait_closed()


async def test_a_dead_server_in_the_list_does_not_keep_the_link_away_from_a_live_one(server):
    dead = [f"nats://127.0.0.1:{free_port()}" for _ in range(3)]
    link = fast_link([*dead, server.url], server.seeds[A], subjects.inbox(A), A)
    async with connected(link):
        assert link.is_connected


async def test_a_key_that_the_server_does_not_know_is_told(server, caplog):
    link = fast_link([server.url], generate_seed(), subjects.inbox(A), A)
    await link.start()
    await until(lambda: "authorization violation" in caplog.text.lower(), "the refusal is told")
    assert not link.is_connected
    await link.close()


async def test_subscriptions_are_there_again_on_a_later_connection(server):
    heard: list[bytes] = []

    async def hear(message):
        heard.append(message.data)

    async with server.bot() as bot, connected(server.node_link(A)) as link:
        await bot.subscribe(subjects.HEARTBEATS, hear)
        await until(lambda: _beaten(link, heard, b"before"), "a heartbeat is heard")
        before = bot.jetstream()
        await server.kill()
        await until(lambda: not (bot.is_connected or link.is_connected), "the loss is noticed")
        await server.start()
        await until(lambda: _beaten(link, heard, b"after"), "a heartbeat is heard again")
        assert bot.jetstream() is not before


async def _beaten(link: Link, heard: list[bytes], body: bytes) -> bool:
    await link.publish_core(subjects.heartbeat(A), body)
    return body in heard


async def test_a_handler_that_fails_is_told_and_ends_nothing(server, caplog):
    async def fail(message):
        raise ValueError("broken handler")

    async with server.bot() as bot, connected(server.node_link(A)) as link:
        await bot.subscribe(subjects.HEARTBEATS, fail)
        await until(lambda: _told(link, caplog), "the failure is told")
        assert bot.is_connected


async def _told(link: Link, caplog) -> bool:
    await link.publish_core(subjects.heartbeat(A), b"x")
    return "broken handler" in caplog.text


async def test_what_must_be_out_is_with_the_server_when_it_returns(server):
    heard = []

    async def hear(message):
        heard.append(message.data)

    async with server.bot() as bot, connected(server.node_link(A)) as link:
        await bot.subscribe(subjects.HEARTBEATS, hear)
        await bot.request("$JS.API.INFO", b"", timedelta(seconds=10))  # so that the subscription is there
        assert await link.publish_and_wait(subjects.heartbeat(A), b"last words")
        await link.close()
        await until(lambda: heard == [b"last words"], "they arrive")


async def test_a_server_that_does_not_confirm_is_told_and_gets_a_new_connection(server):
    async with server.bot(), connected(server.node_link(A)) as link:
        server.freeze()
        assert not await link.publish_and_wait(subjects.heartbeat(A), b"x")
        await until(lambda: not link.is_connected, "it is given up")
        server.thaw()
        await asyncio.wait_for(link.wait_connected(), 30)
        assert await link.publish_and_wait(subjects.heartbeat(A), b"x")
        assert not await server.node_link(A).publish_and_wait(subjects.heartbeat(A), b"x")


async def test_no_task_is_left_when_a_link_is_closed(server):
    async with server.bot(), connected(server.node_link(A)):
        pass
    await until(lambda: len(asyncio.all_tasks()) == 1, "only this test's task is left")


@pytest.mark.parametrize(
    ("servers", "insecure", "sentence"),
    [
        ([], True, "empty"),
        (["nats://10.0.0.1:4222"], True, "without TLS"),
        (["nats://127.0.0.1:4222"], False, "insecure"),
        (["tls://127.0.0.1:4222"], True, "no certificate authority is named"),
        (["nats://user:pass@127.0.0.1:4222"], True, "must not hold a user or password"),
        (["http://127.0.0.1:4222"], True, "wants a URL"),
    ],
)
async def test_an_address_that_must_not_be_used_is_refused_with_a_sentence(servers, insecure, sentence):
    with pytest.raises(ConfigError, match=sentence) as told:
        Link(servers, generate_seed(), "_INBOX_x", "x", insecure=insecure)
    assert "user:pass" not in str(told.value)


def test_pauses_grow_are_random_and_stay_bounded():
    first, longest = timedelta(seconds=1), timedelta(seconds=30)
    pauses = [pause_seconds(attempt, first, longest) for attempt in range(1000)]
    assert all(0 <= pause <= 30 for pause in pauses)
    assert pauses[0] <= 1
    assert max(pauses) > 15
    assert len(set(pauses)) == 1000
