"""The collector `nvidia-smi`: GPU query, process query, GPU query again, joined by UUID; anything odd is an error."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from agent.collectors import smi_csv
from agent.collectors.child import GRACE, Ending
from agent.collectors.smi_csv import BadOutputError
from agent.reading import Sweep

LARGEST_OUTPUT_BYTES = 4 * 1024 * 1024
_PATIENCE = timedelta(seconds=1)
_FORMAT = "--format=csv,noheader,nounits"
_NO_SUCH_FIELD = "is not a valid field to query"


class _Output(NamedTuple):
    status: int
    stdout: str
    stderr: str

    def said(self) -> str:
        """What a person needs of it: the first line of either, on one line."""
        lines = (self.stderr or self.stdout).strip().splitlines()
        return repr(lines[0][:200]) if lines else "nothing"


class NvidiaSmiCollector:
    """Runs one nvidia-smi at a time, and none while an earlier one does not end."""

    name = "nvidia-smi"

    def __init__(self, deadline: timedelta, *, grace: timedelta = GRACE) -> None:
        self._deadline = deadline
        self._ending = Ending(grace)
        self._optional: tuple[str, ...] | None = None

    async def sweep(self) -> Sweep:
        if not await self._ending.wait(min(self._deadline, _PATIENCE)):
            return Sweep(error=self._ending.pending())
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                return await self._read()
        except TimeoutError:
            return self._failed(f"{_binary()} did not answer within {self._deadline.total_seconds():g} s")
        except OSError as error:
            return self._failed(
                f"{_binary()} cannot be run ({error.strerror}): install the driver's tools, or name it in NVIDIA_SMI"
            )
        except BadOutputError as error:
            return self._failed(str(error))

    async def let_go(self) -> str | None:
        """Between sweeps nothing runs, unless an nvidia-smi hangs."""
        await self._ending.wait(2 * GRACE)
        return self._ending.pending()

    async def close(self) -> None:
        await self.let_go()

    def _failed(self, error: str) -> Sweep:
        self._optional = None  # another driver may be loaded by the next sweep
        return Sweep(error=error)

    async def _read(self) -> Sweep:
        if self._optional is None:
            self._optional = await self._known_fields()
        columns = smi_csv.REQUIRED + self._optional
        before = smi_csv.parse_gpus(await self._query("gpu", columns), columns)
        processes = smi_csv.parse_processes(await self._query("compute-apps", smi_csv.PROCESS_COLUMNS))
        after = smi_csv.parse_gpus(await self._query("gpu", columns), columns)
        return smi_csv.join(before, processes, after)

    async def _known_fields(self) -> tuple[str, ...]:
        """The optional fields that this driver has; one that it does not know would fail the whole strict query."""
        if await self._has_fields(smi_csv.OPTIONAL):
            return smi_csv.OPTIONAL
        return tuple([field for field in smi_csv.OPTIONAL if await self._has_fields([field])])

    async def _has_fields(self, fields: Sequence[str]) -> bool:
        query = f"--query-gpu={','.join(fields)}"
        output = await self._run(query, _FORMAT)
        if output.status != 0 and _NO_SUCH_FIELD in output.stdout + output.stderr:
            return False
        _require_success(output, query)
        return True

    async def _query(self, what: str, columns: Sequence[str]) -> str:
        query = f"--query-{what}={','.join(columns)}"
        output = await self._run(query, _FORMAT)
        _require_success(output, query)
        return output.stdout

    async def _run(self, *arguments: str) -> _Output:
        process = await asyncio.create_subprocess_exec(
            _binary(), *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env={**os.environ, "LC_ALL": "C"}
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            stdout = await _bounded(process.stdout)
            stderr = await _bounded(process.stderr)
            status = await process.wait()
        except BaseException:  # the deadline, too much output, or the agent stops
            self._ending.begin(process)
            raise
        return _Output(status, stdout, stderr)


def _binary() -> str:
    return os.environ.get("NVIDIA_SMI") or "nvidia-smi"


def _require_success(output: _Output, query: str) -> None:
    if output.status != 0:
        raise BadOutputError(f"nvidia-smi {query} ended with status {output.status}, saying {output.said()}")
    if output.stderr:
        raise BadOutputError(f"nvidia-smi {query} wrote an error although it ended well: {output.said()}")


async def _bounded(stream: asyncio.StreamReader) -> str:
    """All of it; bytes that are no UTF-8 become U+FFFD, which no check lets through."""
    received = bytearray()
    while part := await stream.read(65536):
        received += part
        if len(received) > LARGEST_OUTPUT_BYTES:
            raise BadOutputError(f"nvidia-smi printed more than {LARGEST_OUTPUT_BYTES} bytes")
    return received.decode("utf-8", errors="replace")
