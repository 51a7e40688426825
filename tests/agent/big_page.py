"""A vLLM with a page of so many lines more, in a process of its own, until its input ends."""

import asyncio
import sys
from pathlib import Path

from tests.agent.answering import Reply, answering

METRICS = (Path(__file__).parents[1] / "cases/runners/vllm_v1.txt").read_text()


async def main(lines: int) -> None:
    more = "".join(f'other_metric{{bucket="{number}"}} {number}\n' for number in range(lines))
    async with answering() as server:
        server.routes |= {"/health": Reply(""), "/metrics": Reply(METRICS + more)}
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main(int(sys.argv[1])))
