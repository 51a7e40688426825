"""The sender on the real nats-server: one at a time, in order, and a row goes only after its acknowledgement."""

import asyncio
import contextlib
import logging
from datetime import timedelta

import pytest

from agent.publish import Sender, send_heartbeats
from agent.spool import Spool
from tests import build
from tests.nats_server import NatsServer, connected, stream_bodies, until
from wire import subjects

NODE = "node-a"


@pytest.fixture
async def server(tmp_path):
    async with NatsServer(tmp_path / "nats", [NODE]) as server:
        yield server


@contextlib.asynccontextmanager
async def sending(server: NatsServer, spool: Spool):
    link = server.node_link(NODE)
    await link.start()
    sender = Sender(spool, link, NODE, ack_deadline=timedelta(seconds=0.5), first_pause=timedelta(seconds=0.05))
    task = asyncio.create_task(sender.run())
    try:
        yield link
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait({task})
        await link.close()


async def add(spool: Spool, count: int, size_bytes: int = 0) -> None:
    for _ in range(count):
        await spool.append(lambda epoch, seq: str(seq).encode().ljust(size_bytes), b"open")


async def is_empty(spool: Spool) -> bool:
    return await spool.oldest() is None


async def received(bot) -> list[int]:
    return [int(body) for body in await stream_bodies(bot.jetstream())]


async def test_everything_is_sent_in_order_and_deleted(server, spool):
    async with server.bot() as bot, sending(server, spool):
        await add(spool, 20)
        await until(lambda: is_empty(spool), "the spool is empty")
        assert await received(bot) == list(range(1, 21))
        await add(spool, 1)
        await until(lambda: is_empty(spool), "the next one is gone too")


async def test_without_a_server_reports_wait_and_then_come_in_order(server, spool):
    await add(spool, 5)
    await server.kill()
    async with sending(server, spool):
        await add(spool, 5)
        await server.start()
        async with server.bot() as bot:
            await until(lambda: is_empty(spool), "the spool is empty")
            assert await received(bot) == list(range(1, 11))


async def test_without_a_stream_reports_wait_and_it_is_said_once_and_again_when_it_works(server, spool, caplog):
    caplog.set_level(logging.INFO)
    await add(spool, 3)
    async with sending(server, spool) as link:
        await asyncio.wait_for(link.wait_connected(), 30)
        await until(lambda: "kind=no_responders" in caplog.text, "that it is said")
        async with server.bot() as bot:
            await until(lambda: is_empty(spool), "the spool is empty")
            assert await received(bot) == [1, 2, 3]
    assert caplog.text.count("reports wait in the spool") == 1
    assert caplog.text.count("reports are sent again kind=no_responders") == 1


async def test_a_full_stream_is_back_pressure_said_once_and_loses_nothing(server, spool, caplog):
    async with server.bot(per_node=4) as bot:
        async with sending(server, spool):
            await add(spool, 8)
            await until(lambda: "kind=stream_full" in caplog.text, "that it is said")
            assert await received(bot) == [1, 2, 3, 4]
            config = (await bot.jetstream().stream_info(subjects.STREAM)).config
            await bot.jetstream().update_stream(config.evolve(max_msgs_per_subject=100))
            await until(lambda: is_empty(spool), "the spool is empty")
        assert await received(bot) == list(range(1, 9))
    assert caplog.text.count("kind=stream_full") == 1


async def test_a_frozen_server_costs_nothing_and_brings_nothing_twice(server, spool):
    async with server.bot() as bot, sending(server, spool) as link:
        await asyncio.wait_for(link.wait_connected(), 30)
        server.freeze()
        await add(spool, 3)
        await until(lambda: not link.is_connected, "the link gives the server up")
        server.thaw()
        await until(lambda: is_empty(spool), "the spool is empty")
        assert await received(bot) == [1, 2, 3]


async def test_a_report_that_the_bus_can_never_take_is_dropped_and_said_and_blocks_no_other(server, spool, caplog):
    async with server.bot() as bot, sending(server, spool):
        await add(spool, 1)
        await add(spool, 1, size_bytes=70_000)
        await add(spool, 1)
        await until(lambda: is_empty(spool), "the spool is empty")
        assert await received(bot) == [1, 3]
    assert "report dropped, the bus does not take it seq=2" in caplog.text


async def test_an_id_that_somebody_used_before_is_an_alarm(server, spool, caplog):
    async with server.bot(), connected(server.node_link(NODE)) as thief:
        stolen = subjects.message_id(NODE, spool.epoch, 1)
        await thief.publish_acked(subjects.observations(NODE), b"forged", stolen, timedelta(seconds=5))
        async with sending(server, spool):
            await add(spool, 2)
            await until(lambda: is_empty(spool), "the spool is empty")
    assert caplog.text.count("the id of one that was never sent") == 1


async def test_a_report_that_an_earlier_run_may_have_sent_is_no_alarm(server, tmp_path, caplog):
    async with server.bot() as bot:
        first = Spool(tmp_path, 1024 * 1024)
        await first.open()
        await add(first, 1)
        async with connected(server.node_link(NODE)) as link:  # acknowledged, but killed before the row was deleted
            sent = subjects.message_id(NODE, first.epoch, 1)
            await link.publish_acked(subjects.observations(NODE), b"1", sent, timedelta(seconds=5))
        await first.close()
        second = Spool(tmp_path, 1024 * 1024)
        await second.open()
        async with sending(server, second):
            await until(lambda: is_empty(second), "the spool is empty")
        await second.close()
        assert await received(bot) == [1]
    assert "never sent" not in caplog.text


@contextlib.asynccontextmanager
async def beating(server: NatsServer, every: timedelta, wake: asyncio.Event):
    """The heartbeats that the bot hears, and the node's link."""
    heard: list[bytes] = []

    async def hear(message):
        heard.append(message.data)

    async with server.bot() as bot, connected(server.node_link(NODE)) as link:
        await bot.subscribe(subjects.HEARTBEATS, hear)
        await bot.jetstream().stream_info(subjects.STREAM)  # so the server has the subscription
        link.on_connected = wake.set
        task = asyncio.create_task(send_heartbeats(link, NODE, lambda: build.heartbeat(1, node=NODE), every, wake))
        yield heard, (link, bot)
        assert not task.done(), task
        task.cancel()
        await asyncio.wait({task})


async def test_heartbeats_come_at_once_when_woken_and_after_a_loss(server):
    wake = asyncio.Event()
    async with beating(server, timedelta(hours=1), wake) as (heard, links):
        await until(lambda: len(heard) == 1, "one at once")
        wake.set()
        await until(lambda: len(heard) == 2, "one when woken")
        while len(heard) == 2:  # again where the node was back before the one who listens
            await server.kill()
            await until(lambda: not any(link.is_connected for link in links), "the loss is noticed")
            await server.start()
            await until(lambda: all(link.is_connected for link in links), "both are back", seconds=30)
            await asyncio.sleep(0.5)


async def test_heartbeats_come_at_their_interval(server):
    async with beating(server, timedelta(milliseconds=50), asyncio.Event()) as (heard, _):
        await until(lambda: len(heard) >= 5, "five of them")
