"""Asks every scheduler of this node at every sample, beside everything else and never for long."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from agent.allocation import host, kubelet, slurm
from agent.allocation.given import Given, Scheduler, allocations, node_gpus
from agent.config import AgentConfig
from wire.messages import Allocation

DEADLINE = timedelta(seconds=3)
LOOK_FOR_DAEMONS_EVERY = timedelta(seconds=30)  # walking through /proc costs 10 ms on a busy node
_DAEMONS = kubelet.DAEMONS | slurm.DAEMONS

_log = logging.getLogger(__name__)


class Allocations:
    """Lives as long as the agent. An answer that is late is no answer: it may be about another moment."""

    def __init__(
        self, schedulers: Sequence[Scheduler], deadline: timedelta = DEADLINE, proc: Path = Path("/proc")
    ) -> None:
        self._schedulers, self._deadline, self._proc = schedulers, deadline, proc
        self._daemons: frozenset[str] = frozenset()
        self._looked_at_seconds: float | None = None
        self._asking: asyncio.Future[list[Given]] | None = None
        self._told: str | None = None

    async def read(self, index_by_uuid: Mapping[str, int]) -> Mapping[str, Allocation]:
        """By UUID; empty where nothing that allocates GPUs runs on this node. Never raises, returns by its deadline."""
        given = await self._ask(index_by_uuid)
        self._tell(next((one.error for one in given if one.error is not None), None))
        return allocations(index_by_uuid, given)

    def close(self) -> None:
        for scheduler in self._schedulers:
            scheduler.close()

    async def _ask(self, index_by_uuid: Mapping[str, int]) -> list[Given]:
        if self._asking is not None and not self._asking.done():
            return [Given(error="an earlier question to the node's scheduler was not answered yet")]
        asking = asyncio.ensure_future(asyncio.to_thread(self._read, index_by_uuid, self._is_time_to_look()))
        done, _ = await asyncio.wait({asking}, timeout=self._deadline.total_seconds())
        if not done:
            self._asking = asking
            return [Given(error=f"the node's scheduler did not answer within {self._deadline.total_seconds():g} s")]
        if (error := asking.exception()) is not None:
            return [Given(error=f"what the node's scheduler gave away cannot be read: {error}")]
        return asking.result()

    def _is_time_to_look(self) -> bool:
        now_seconds = asyncio.get_running_loop().time()
        looked = self._looked_at_seconds
        if looked is not None and now_seconds - looked < LOOK_FOR_DAEMONS_EVERY.total_seconds():
            return False
        self._looked_at_seconds = now_seconds
        return True

    def _read(self, index_by_uuid: Mapping[str, int], is_time_to_look: bool) -> list[Given]:
        """In a thread: files and a socket."""
        if is_time_to_look:
            self._daemons = host.daemons(_DAEMONS, self._proc)
        gpus = node_gpus(index_by_uuid, partial(host.gpus_by_minor, self._proc))
        found = (scheduler.read(gpus, self._daemons) for scheduler in self._schedulers)
        return [given for given in found if given is not None]

    def _tell(self, error: str | None) -> None:
        """Once when it cannot be read, and once when it can be again."""
        if error is not None and self._told is None:
            _log.error("GPUs that are idle are not called free, their allocation cannot be read: %s", error)
        if error is None and self._told is not None:
            _log.info("allocation can be read again")
        self._told = error


def allocations_of(config: AgentConfig) -> Allocations:
    schedulers = config.schedulers
    return Allocations([kubelet.Kubelet(schedulers.kubelet_socket), slurm.Slurm(schedulers.slurm_job_dir)])
