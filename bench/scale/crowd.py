"""A process full of simulated nodes, which does what it is told through a pipe; and the whole crowd of them."""

import asyncio
import math
import multiprocessing
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.scale.node import Counts, Node

WINDOW_SECONDS, HEARTBEAT_SECONDS = 300.0, 30.0


class _Process:
    """Commands are names of methods with arguments; each is answered with the counts of its nodes."""

    def __init__(self, pipe: Connection, names: Sequence[tuple[str, str]], port: int) -> None:
        self._pipe = pipe
        self._counts = Counts()
        self._nodes = [Node(name, seed, port, self._counts) for name, seed in names]
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._done = asyncio.Event()

    async def run(self) -> None:
        self._loop.add_reader(self._pipe.fileno(), self._on_command)
        await self._done.wait()

    def _on_command(self) -> None:
        try:
            name, arguments = self._pipe.recv()
        except EOFError:  # the run is over, however it ended
            self._done.set()
            self._loop.remove_reader(self._pipe.fileno())
            return
        getattr(self, name)(*arguments)
        waiting = sum(len(node.waiting) for node in self._nodes)
        given = sum(node.last_seq for node in self._nodes)
        self._pipe.send({**vars(self._counts), "waiting": waiting, "given": given})

    def look(self) -> None:
        """Only the counts are wanted."""

    def connect(self, spread_seconds: float) -> None:
        for node in self._nodes:
            self._loop.call_later(random.uniform(0, spread_seconds), node.connect)

    def live(self) -> None:
        """Windows and heartbeats at their real rates, each node at a moment of its own."""
        for node in self._nodes:
            self._every(WINDOW_SECONDS, random.uniform(0, WINDOW_SECONDS), node.close_window)
            self._every(HEARTBEAT_SECONDS, random.uniform(0, HEARTBEAT_SECONDS), node.beat)

    def fall_silent(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def only_beat(self) -> None:
        for node in self._nodes:
            self._every(HEARTBEAT_SECONDS, random.uniform(0, HEARTBEAT_SECONDS), node.beat)

    def close_windows(self, count: int, spread_seconds: float, share: float = 1.0) -> None:
        """So many windows more in the spools of so many nodes, at random moments within the time."""
        for node in self._nodes[: math.ceil(len(self._nodes) * share)]:
            self._loop.call_later(random.uniform(0, spread_seconds), self._close_and_beat, node, count)

    def become_idle(self, share: float) -> None:
        """All GPUs of so many nodes are idle from the next window on."""
        for node in self._nodes[: int(len(self._nodes) * share)]:
            node.idle_from = node.last_seq + 1

    def become_busy(self) -> None:
        """All GPUs of all nodes are in use, from now on."""
        for node in self._nodes:
            node.idle_from = None
            node.beat()

    def end(self) -> None:
        self._done.set()

    def _close_and_beat(self, node: Node, count: int) -> None:
        node.close_window(count)
        node.beat()

    def _every(self, seconds: float, first: float, call: Any) -> None:
        at = len(self._timers)

        def again() -> None:
            self._timers[at] = self._loop.call_later(seconds, again)
            call()

        self._timers.append(self._loop.call_later(first, again))


def _main(pipe: Connection, names: Sequence[tuple[str, str]], port: int) -> None:
    async def run() -> None:
        await _Process(pipe, names, port).run()

    asyncio.run(run())


@dataclass(frozen=True)
class Total:
    """What all processes counted together. `waiting` windows are in spools, `given` were ever put there."""

    connected: int
    acked: int
    duplicates: int
    beats: int
    losses: int
    sent_again: int
    waiting: int
    given: int


class Crowd:
    """All simulated nodes, in several processes."""

    def __init__(self, names: Sequence[tuple[str, str]], port: int, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_main, args=(theirs, names[number::processes], port), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def tell(self, command: str, *arguments: float) -> Total:
        for pipe in self._pipes:
            pipe.send((command, arguments))
        answers: list[Mapping[str, int]] = [pipe.recv() for pipe in self._pipes]
        return Total(**{key: sum(answer[key] for answer in answers) for key in answers[0]})

    def until(self, is_so: Any, what: str, seconds: float) -> tuple[Total, float]:
        """Looks twice a second; the counts, and the seconds that it took."""
        begun = time.monotonic()
        while not is_so(total := self.tell("look")):
            if time.monotonic() - begun > seconds:
                raise TimeoutError(f"{what}: not within {seconds:.0f} s: {total}")
            time.sleep(0.5)
        return total, time.monotonic() - begun

    @property
    def pids(self) -> list[int]:
        return [process.pid or 0 for process in self._processes]

    def end(self) -> None:
        for pipe in self._pipes:
            pipe.send(("end", ()))
        for process in self._processes:
            process.join(20)
            process.kill()
