"""Light nodes in the test's own process: the wire of bench/scale, a clock for each, and a spool that keeps bytes."""

import asyncio
import json
import random
from collections.abc import Mapping

from bench.scale.node import Counts, Node
from bench.scale.reports import beat_body, window_body

WINDOW_EVERY_SECONDS = 3.0
AGAIN_SECONDS = 1.0


class ChaosNode(Node):
    """What is closed stays as it was closed, whatever its clock or its GPUs do while it waits."""

    first_pause_seconds, ack_seconds = 1.0, 5.0

    def __init__(self, name: str, seed: str, port: int, counts: Counts) -> None:
        super().__init__(name, seed, port, counts)
        self.ahead_seconds = 0.0
        self.is_idle = False
        self._bodies: dict[int, bytes] = {}

    @property
    def is_up(self) -> bool:
        return self._is_up

    def close_window(self, count: int = 1) -> None:
        for seq in range(self.last_seq + 1, self.last_seq + count + 1):
            self._bodies[seq] = window_body(self.name, seq, idle=self.is_idle, ahead_seconds=self.ahead_seconds)
        super().close_window(count)
        self.beat()

    def _heartbeat(self) -> bytes:
        return beat_body(self.name, self.last_seq, idle=self.is_idle, ahead_seconds=self.ahead_seconds)

    def _window(self, seq: int) -> bytes:
        return self._bodies[seq]

    def _on_reply(self, seq: int, body: bytes) -> None:
        """Nobody takes it, or the disk of the stream is full: it waits in the spool, and goes once more."""
        if body.startswith(b"NATS/1.0") or "error" in json.loads(body):
            if self._in_flight is not None:
                self._in_flight.cancel()
                self._in_flight = self._loop.call_later(AGAIN_SECONDS, self._not_acked)
            return
        super()._on_reply(seq, body)
        self._bodies = {kept: self._bodies[kept] for kept in self.waiting}


class LightFleet:
    """`begin` lets all of them connect and close a window every 3 s, each at a moment of its own."""

    def __init__(self, seeds: Mapping[str, str], port: int, chance: random.Random) -> None:
        self.counts = Counts()
        self.nodes = [ChaosNode(name, seed, port, self.counts) for name, seed in seeds.items()]
        self._chance = chance
        self._ticking: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        for node in self.nodes:
            node.connect()
            first = self._chance.uniform(0, WINDOW_EVERY_SECONDS)
            self._ticking.append(asyncio.create_task(_close_windows(node, first)))

    async def end(self) -> None:
        for task in self._ticking:
            task.cancel()
        await asyncio.gather(*self._ticking, return_exceptions=True)
        for node in self.nodes:
            node.leave()

    def some(self, count: int) -> list[ChaosNode]:
        return self._chance.sample(self.nodes, min(count, len(self.nodes)))

    def change(self) -> None:
        """A few nodes become idle, or busy, and clocks of a few go wrong, or right: there is something to say."""
        for node in self.some(3):
            node.is_idle = not node.is_idle
            node.close_window(3)
        for node in self.some(3):
            self.set_clock(node, 0.0 if node.ahead_seconds else 3600.0)

    def set_clock(self, node: ChaosNode, ahead_seconds: float) -> None:
        """Three heartbeats show it."""
        node.ahead_seconds = ahead_seconds
        node.close_window()
        node.beat()
        node.beat()


async def _close_windows(node: ChaosNode, first_seconds: float) -> None:
    await asyncio.sleep(first_seconds)
    while True:
        node.close_window()
        await asyncio.sleep(WINDOW_EVERY_SECONDS)
