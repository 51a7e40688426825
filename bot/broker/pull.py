"""Reads the stream through its consumer: the next messages come while the last ones are stored."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from wire import subjects

FETCH = 500  # twice as many are here and not acknowledged at most: fewer than MAX_ACK_PENDING of the stream
FIRST_TIMEOUT_SECONDS = 2.0  # a fetch across a broker restart sleeps as long although messages wait
MORE_TIMEOUT_SECONDS = 0.05


@contextlib.asynccontextmanager
async def pulling(jetstream: JetStreamContext) -> AsyncIterator["Pull"]:
    """On this connection, from where the consumer is. Raises nats.errors.Error."""
    subscription = await jetstream.pull_subscribe_bind(
        subjects.CONSUMER, subjects.STREAM, inbox_prefix=f"{subjects.inbox(subjects.BOT)}.".encode()
    )
    pull = Pull(subscription)
    try:
        yield pull
    finally:
        await pull.stop()
        with contextlib.suppress(nats.errors.Error, TimeoutError, OSError):
            await subscription.unsubscribe()


class Pull:
    """Messages in the order of the stream. What was not acknowledged comes again after `reset_consumer`."""

    def __init__(self, subscription: JetStreamContext.PullSubscription) -> None:
        self._subscription = subscription
        self._next = asyncio.create_task(_fetch(subscription))

    async def take(self) -> Sequence[Msg]:
        """Up to FETCH, as soon as one is here; none where none came for a while. Raises nats.errors.Error."""
        messages = await self._next
        self._next = asyncio.create_task(_fetch(self._subscription))
        return messages

    async def stop(self) -> None:
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)


async def _fetch(subscription: JetStreamContext.PullSubscription) -> Sequence[Msg]:
    """What is there, as soon as something is: a fetch of many would wait for all of them until its time-out."""
    first = await _fetch_up_to(subscription, 1, FIRST_TIMEOUT_SECONDS)
    return [*first, *await _fetch_up_to(subscription, FETCH - 1, MORE_TIMEOUT_SECONDS)] if first else []


async def _fetch_up_to(subscription: JetStreamContext.PullSubscription, count: int, seconds: float) -> Sequence[Msg]:
    try:
        return await subscription.fetch(count, timeout=seconds)
    except TimeoutError:  # nats-py raises its own and the plain one: nothing came
        return []
