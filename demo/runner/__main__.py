"""`python -m demo.runner SURFACE`: the runner as a process of its own. States come in on stdin, one a line."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from demo.runner.life import State
from demo.runner.process import Process
from demo.runner.server import Runner
from demo.runner.surfaces import SURFACES

_COMM = Path("/proc/self/comm")  # the name by which the agent knows Ollama's child


async def _run(arguments: argparse.Namespace) -> None:
    """Until the input ends. Answers `put` to each state, and to `log` the requests since the last time as JSON."""
    runner = Runner(State(arguments.state), arguments.surface, is_endless=arguments.endless)
    async with runner, _child(arguments) as child:
        print(runner.url, flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if line == "log":
                print(json.dumps([asdict(asked) for asked in runner.log]), flush=True)
                runner.log.clear()
                continue
            await runner.put(State(line))
            if child is not None:
                await child.put(State(line))
            print("put", flush=True)


@asynccontextmanager
async def _child(arguments: argparse.Namespace) -> AsyncIterator[Process | None]:
    """What newer versions of Ollama start for each model: llama.cpp's own server."""
    if not arguments.child:
        yield None
        return
    async with Process("llama.cpp", State(arguments.state), "--comm", "llama-server") as child:
        yield child


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.runner", description=__doc__)
    parser.add_argument("surface", choices=sorted(SURFACES))
    parser.add_argument("--state", default=State.RESTING, choices=list(State))
    parser.add_argument("--endless", action="store_true", help="Ollama: models stay loaded for ever")
    parser.add_argument("--child", action="store_true", help="Ollama: with a llama-server, as newer versions have it")
    parser.add_argument("--comm", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.comm or arguments.child:
        _COMM.write_text(arguments.comm or "ollama")
    asyncio.run(_run(arguments))


if __name__ == "__main__":
    main()
