"""The runner in a process of its own, seen from the one that started it."""

import asyncio
import json
import sys
from typing import Self

from demo.runner.life import State


class Process:
    """`python -m demo.runner`; `log` holds the requests that were asked for so far."""

    def __init__(self, surface: str, state: State = State.RESTING, *more: str) -> None:
        self._command = [sys.executable, "-m", "demo.runner", surface, "--state", state, *more]
        self._process: asyncio.subprocess.Process | None = None
        self.url, self.log = "", list[dict[str, object]]()

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, limit=1 << 24)
        self.url = await self._line()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Also where it was stopped or killed meanwhile."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def put(self, state: State) -> None:
        await self._ask(state)

    async def generations(self) -> list[dict[str, object]]:
        """All requests for tokens so far."""
        self.log += json.loads(await self._ask("log"))
        return [asked for asked in self.log if asked["method"] == "POST"]

    async def _ask(self, line: str) -> str:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()
        return await self._line()

    async def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()
