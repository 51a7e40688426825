"""A node that floods the bus is told once and bounded; the others are heard as ever."""

import asyncio
from datetime import timedelta

from bot.limits import HEARTBEATS
from bot.listen import Listener
from tests.build import FIRST_WINDOW, heartbeat, observation
from tests.nats_server import connected, until
from tests.tls_bus import MAX_BYTES, bot_config, new_node, running_bus
from wire import subjects
from wire.acks import Ack
from wire.messages import Verdict, encode

LOUD, CALM = "node-a", "node-b"


async def test_a_flood_of_heartbeats_is_dropped_told_once_and_touches_no_other_node(
    tmp_path, store, fleet, advance, ingest, caplog
):
    config = bot_config(tmp_path / "bot")
    seeds = {name: new_node(config, name) for name in (LOUD, CALM)}
    async with running_bus(config) as bus:
        listener = Listener(bus.link, store, ingest, fleet, advance, MAX_BYTES)
        listening = asyncio.create_task(listener.run())
        try:
            async with bus.visit(seeds[LOUD], LOUD) as loud, bus.visit(seeds[CALM], CALM) as calm:
                beat = encode(heartbeat(FIRST_WINDOW, [Verdict.HELD], node=LOUD))
                for _ in range(5 * int(HEARTBEATS.at_once)):
                    await loud.client.publish(subjects.heartbeat(LOUD), beat)
                await until(lambda: "more heartbeats than its limit" in caplog.text, "a word about it")
                beat = encode(heartbeat(FIRST_WINDOW, [Verdict.HELD], node=CALM))
                await calm.client.publish(subjects.heartbeat(CALM), beat)
                await until(lambda: fleet.seen(CALM), "the calm node's heartbeat")
            assert caplog.text.count("more heartbeats than its limit") == 1
            async with connected(bus.node_link(LOUD, seeds[LOUD])) as link:
                body = encode(observation(FIRST_WINDOW, [Verdict.HELD], node=LOUD))
                ack = await link.publish_acked(subjects.observations(LOUD), body, "a.e.1", timedelta(seconds=5))
            assert isinstance(ack, Ack)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
