"""A server that answers like a runner, and what the agent reads of it."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agent.runner_config import RunnerConfig
from agent.runner_reading import GpuLook, RunnerReading
from agent.runners.read import RunnerReader
from tests.agent.answering import Answering, Reply, answering

PAGES = Path(__file__).parents[1] / "cases/runners"
METRICS = (PAGES / "vllm_v1.txt").read_text()
DEADLINE = 0.6


@contextlib.asynccontextmanager
async def answering_vllm() -> AsyncIterator[Answering]:
    async with answering() as server:
        server.routes |= {"/health": Reply({}), "/metrics": Reply(METRICS)}
        yield server


def reader_of(server: Answering, preset: str, **config: Any) -> RunnerReader:
    return RunnerReader(RunnerConfig(name="chat", preset=preset, url=server.url, **config), answer_seconds=DEADLINE)


async def reading(server: Answering, preset: str = "vllm", **config: Any) -> RunnerReading:
    return await reader_of(server, preset, **config).read(GpuLook())


def ps(server: Answering, *models: dict[str, Any], date: str = "Mon, 30 Nov 2026 12:00:00 GMT") -> None:
    server.routes |= {
        "/api/version": Reply({"version": "0.30"}),
        "/api/ps": Reply({"models": list(models)}, headers={"Date": date}),
    }


ENDLESS = {"model": "llama3:latest", "expires_at": "2318-03-02T11:00:00.123456789Z", "context_length": 8192}
FIVE_MINUTES = {**ENDLESS, "expires_at": "2026-11-30T12:04:59.5+00:00"}
OVERDUE = {**ENDLESS, "expires_at": "2026-11-30T20:59:00+09:00"}
