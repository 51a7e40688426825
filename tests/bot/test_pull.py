"""Windows come in the order of the stream, asked for in advance and never too many of them."""

from contextlib import asynccontextmanager
from datetime import timedelta

import nats.errors
import pytest

from bot.broker import pull
from bot.broker.pull import pulling
from bot.broker.stream import reset_consumer
from tests.nats_server import NatsServer, connected, until
from wire import subjects
from wire.acks import Ack

NODE = "node-a"


@asynccontextmanager
async def stream(folder, count):
    """The bot's JetStream, with so many messages in the stream; and what sends one more."""
    bus = NatsServer(folder / "bus", [NODE])
    async with bus, bus.bot() as bot, connected(bus.node_link(NODE)) as link:

        async def send(number):
            subject, deadline = subjects.observations(NODE), timedelta(seconds=20)
            assert isinstance(await link.publish_acked(subject, b"%d" % number, f"a.{number}", deadline), Ack)

        for number in range(1, count + 1):
            await send(number)
        yield bot.jetstream(), send


async def taken(one, count):
    messages = []

    async def all_here():
        messages.extend(await one.take())
        return len(messages) >= count

    await until(all_here, f"{count} messages", 30)
    return [int(message.data) for message in messages], messages


async def test_all_come_once_in_order_and_few_of_them_wait_here(tmp_path, monkeypatch):
    monkeypatch.setattr(pull, "FETCH", 5)
    async with stream(tmp_path, 23) as (jetstream, send):
        await reset_consumer(jetstream, 1)
        async with pulling(jetstream) as one:
            numbers: list[int] = []
            while len(numbers) < 23:
                more, them = await taken(one, 1)
                waiting = (await jetstream.consumer_info(subjects.STREAM, subjects.CONSUMER)).num_ack_pending
                assert waiting <= len(them) + 2 * pull.FETCH
                for message in them:
                    await message.ack_sync(timeout=20)
                numbers += more
            await send(24)
            assert (await taken(one, 1))[0] == [24]
            assert await one.take() == []
    assert numbers == list(range(1, 24))


async def test_what_was_on_its_way_when_reading_ended_comes_again_in_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(pull, "FETCH", 2)
    async with stream(tmp_path, 6) as (jetstream, send):
        await reset_consumer(jetstream, 1)
        async with pulling(jetstream) as one:
            assert (await taken(one, 2))[0] == [1, 2]  # the next ones are on their way already
        await send(7)  # while a request for more may still be open
        await reset_consumer(jetstream, 2)
        async with pulling(jetstream) as one:
            assert (await taken(one, 6))[0] == [2, 3, 4, 5, 6, 7]


async def test_a_consumer_that_is_gone_is_an_error_and_no_silence(tmp_path):
    async with stream(tmp_path, 1) as (jetstream, _), pulling(jetstream) as one:
        await taken(one, 1)
        await jetstream.delete_consumer(subjects.STREAM, subjects.CONSUMER)
        with pytest.raises(nats.errors.Error, match="ServiceUnavailable"):
            await taken(one, 1)
