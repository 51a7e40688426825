"""The agent's own loop around one runner on real HTTP, whose ticks a test takes one by one."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from agent.clock import Clock
from agent.runner_config import RunnerConfig
from agent.runner_reading import GpuLook
from agent.runners.keep import Keeper
from agent.runners.plan import plan_of
from agent.runners.read import RunnerReader
from agent.ticks import RunnerWatch
from tests.nats_server import until
from wire.ticks import Tick


class NodeClock(Clock):
    """A node's clock that a test moves: minutes pass between two ticks at once."""

    def __init__(self) -> None:
        self.at = 1000.0

    def boottime_seconds(self) -> float:
        return self.at


class RunnerNode:
    """`gpu` is what its GPUs show. A canary that a tick sends has ended before the next one."""

    def __init__(self, config: RunnerConfig, folder: Path, every: timedelta, answer_seconds: float) -> None:
        keeper = Keeper(folder, config.name)
        reader = RunnerReader(config, answer_seconds=answer_seconds)
        self.watch = RunnerWatch(config, plan_of(config, every.total_seconds()), reader, keeper, keeper.load())
        self.clock, self.gpu = NodeClock(), GpuLook()
        self._every_seconds = every.total_seconds()

    async def __aenter__(self) -> "RunnerNode":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.watch.close()

    async def tick(self, on_sent: Callable[[], None] = lambda: None) -> Tick:
        """`on_sent` is called when this tick has sent a canary."""
        self.clock.at += self._every_seconds
        tick = await self.watch.tick(self.clock, lambda _, __: self.gpu, ())
        if self.watch.canaries.outstanding_seconds is not None:
            on_sent()
            await until(lambda: self.watch.canaries.outstanding_seconds is None, "the canary ends")
        return tick
