"""Orders to a real node at random moments, each said twice: what is done for one of them is a line in a file."""

from collections import Counter
from pathlib import Path
from typing import Any

from tests.agent.order_node import OrderNode
from tests.build_orders import KEY
from tests.nats_server import until
from wire.acks import Failure
from wire.orders import sign_order

ANSWER_SECONDS = 3.0


def settings(folder: Path) -> dict[str, Any]:
    """Config of a node that writes down each restart, and restarts nothing."""
    script = folder / "restart"
    script.write_text('#!/bin/sh\necho "$GPU_ONCALL_REASON" >> "$0.done"\n')
    script.chmod(0o755)
    restart = {"command": [str(script)], "minimum_interval": "1s", "per_day": 10_000}
    return {"restart_runner": {"chat": restart}}


class Orders:
    """Whoever sends one waits for nothing: its outcome may be known when the agent is back."""

    def __init__(self, node: OrderNode, folder: Path) -> None:
        self._node = node
        self._done = folder / "restart.done"
        self._sent: list[bytes] = []
        self.answers: Counter[str] = Counter()

    async def send(self) -> None:
        """Made from what was heard last; a node that hears nothing or says nothing does nothing."""
        await until(lambda: self._node.beats and self._node.beats[-1].runners, "the node's heartbeat", 60)
        order = self._node.order(reason=f"for chaos, {len(self._sent)}.")
        self._sent.append(sign_order(KEY, order))
        await self._say(self._sent[-1])

    async def repeat(self) -> None:
        """The same bytes once more, as a network or somebody with a record of it may."""
        for message in self._sent[-2:]:
            await self._say(message)

    async def _say(self, message: bytes) -> None:
        answer = await self._node.send(message, ANSWER_SECONDS)
        self.answers["no answer" if isinstance(answer, Failure) else "answered"] += 1

    def done_twice(self) -> int:
        lines = self._done.read_text().splitlines() if self._done.exists() else []
        return sum(count - 1 for count in Counter(lines).values())

    def note_done_again(self) -> None:
        """As if the last one had been done twice."""
        with self._done.open("a") as file:
            file.write(self._done.read_text().splitlines()[-1] + "\n")

    def done(self) -> int:
        return len(self._done.read_text().splitlines()) if self._done.exists() else 0
