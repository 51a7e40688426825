"""A vLLM with a page of a thousand lines more, in a process of its own, until its input ends."""

import asyncio
import sys
from pathlib import Path

from tests.agent.answering import Reply, answering

METRICS = (Path(__file__).parents[1] / "cases/runners/vllm_v1.txt").read_text()
MORE = "".join(f'other_metric{{bucket="{number}"}} {number}\n' for number in range(1000))


async def main() -> None:
    async with answering() as server:
        server.routes |= {"/health": Reply(""), "/metrics": Reply(METRICS + MORE)}
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
