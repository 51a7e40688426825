"""Where readings come from. A new source is one file here and one line in COLLECTORS."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the worker process must not load what it does not use
    from agent.config import AgentConfig
    from agent.reading import Sweep


class Collector(Protocol):
    """A source of readings."""

    name: str

    async def sweep(self) -> "Sweep":
        """Never raises; returns by its deadline. Whatever failed is in the sweep's `error`."""

    async def let_go(self) -> str | None:
        """Gives the driver back until the next sweep. A sentence where something still holds on to it, else None."""

    async def close(self) -> None:
        """Ends what the collector started. No sweep may follow."""


def _nvml(config: "AgentConfig") -> Collector:
    from agent.collectors.nvml import NvmlCollector

    return NvmlCollector(config.sample_deadline)


def _nvidia_smi(config: "AgentConfig") -> Collector:
    from agent.collectors.nvidia_smi import NvidiaSmiCollector

    return NvidiaSmiCollector(config.sample_deadline)


def _dcgm(config: "AgentConfig") -> Collector:
    from agent.collectors.dcgm import DcgmCollector

    dcgm = config.dcgm
    return DcgmCollector(COLLECTORS[dcgm.processes](config), dcgm.url, dcgm.collect_interval, config.sample_deadline)


def _replay(config: "AgentConfig") -> Collector:
    from agent.collectors.replay import ReplayCollector

    return ReplayCollector(config.replay_file)


COLLECTORS: Mapping[str, Callable[["AgentConfig"], Collector]] = {
    "nvml": _nvml,
    "nvidia-smi": _nvidia_smi,
    "dcgm": _dcgm,
    "replay": _replay,
}
