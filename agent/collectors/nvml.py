"""The collector `nvml`: asks the one worker process that holds NVML open."""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from datetime import timedelta
from importlib.util import find_spec

import msgspec

from agent.collectors.child import GRACE, Ending
from agent.reading import Sweep

WORKER = (sys.executable, "-m", "agent.collectors.nvml_worker")
LARGEST_ANSWER_BYTES = 4 * 1024 * 1024
_PATIENCE = timedelta(seconds=1)  # for a worker that was told to leave and is about to
QUESTIONS_PER_WORKER = 8640  # a day at one every 10 s: NVML clients leak (gpu-operator#340, dcgm-exporter#702)

_log = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`leaving` means that the worker ends after this answer, and the next sweep needs a new one."""

    question: int
    sweep: Sweep
    leaving: bool = False


_decode = msgspec.json.Decoder(Answer).decode


class NvmlCollector:
    """Lives as long as the agent. Never two workers at once: one that does not die is reported at every sweep."""

    name = "nvml"

    def __init__(
        self,
        deadline: timedelta,
        *,
        grace: timedelta = GRACE,
        questions_per_worker: int = QUESTIONS_PER_WORKER,
    ) -> None:
        self._deadline = deadline
        self._questions_per_worker = questions_per_worker
        self._ending = Ending(grace)
        self._worker: Process | None = None
        self._question = 0
        self._asked = 0

    async def sweep(self) -> Sweep:
        if not await self._ending.wait(min(self._deadline, _PATIENCE)):
            return Sweep(error=self._ending.pending())
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                return await self._ask()
        except TimeoutError:
            return self._give_up(f"NVML did not answer within {self._deadline.total_seconds():g} s")
        except (OSError, ValueError) as error:
            return self._give_up(f"the NVML worker cannot be used: {error}")

    async def let_go(self) -> str | None:
        """Ends the worker; waits twice the grace at most."""
        self._retire()
        await self._ending.wait(2 * GRACE)
        return self._ending.pending()

    async def close(self) -> None:
        """A worker that hangs in the driver is left to the kernel."""
        if (pending := await self.let_go()) is not None:
            _log.warning("leaving an NVML worker behind: %s", pending)

    async def _ask(self) -> Sweep:
        worker = self._worker or await self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        self._question += 1
        self._asked += 1
        worker.stdin.write(b"%d\n" % self._question)
        await worker.stdin.drain()
        line = await worker.stdout.readline()
        if not line.endswith(b"\n"):
            return self._give_up("the NVML worker ended without an answer")
        answer = _decode(line)  # msgspec's errors are ValueErrors
        if answer.question != self._question:
            return self._give_up(f"the NVML worker answered question {answer.question}, asked was {self._question}")
        if answer.leaving or self._asked >= self._questions_per_worker:
            self._retire()
        return answer.sweep

    async def _start(self) -> Process:
        if find_spec("pynvml") is None:
            raise OSError("nvidia-ml-py is not installed: install gpu-oncall[agent]")
        self._asked = 0
        self._worker = await asyncio.create_subprocess_exec(
            *WORKER, stdin=PIPE, stdout=PIPE, limit=LARGEST_ANSWER_BYTES
        )
        _log.info("NVML worker started pid=%d", self._worker.pid)
        return self._worker

    def _give_up(self, error: str) -> Sweep:
        self._retire()
        return Sweep(error=error)

    def _retire(self) -> None:
        """Every answer that may still come from this worker is stale, so its pipes go with it."""
        if self._worker is None:
            return
        worker, self._worker = self._worker, None
        if worker.stdin is not None:
            worker.stdin.close()
        self._ending.begin(worker)
