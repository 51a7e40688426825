"""The real agent on a simulated machine: its boot id lies in a file, so that a new one is a new boot."""

import argparse
import asyncio
import logging
import signal
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agent.clock import Clock
from agent.collectors import COLLECTORS
from agent.config import AgentConfig, load
from agent.processes import explain
from agent.read_sample import rule_settings, take_sample
from agent.run import run
from agent.sample import TakeSample
from agent.verdicts import Sample


class ClockOfBoot(Clock):
    """The real clocks, with the boot that the machine was in when this process began."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id

    def boot_id(self) -> str:
        return self._boot_id


async def _run(path: Path, boot_id: str) -> None:
    config, stop = load(path), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    sampling = _of_this_host(config) if config.collector == "replay" else None
    await run(config, stop, clock=ClockOfBoot(boot_id), take_sample=sampling)


def _of_this_host(config: AgentConfig) -> TakeSample:
    """The recording's processes are of another host, as a rule; the demo's run here, and their owners are shown."""
    take = partial(take_sample, COLLECTORS[config.collector](config), None, rule_settings(config))

    async def explained() -> Sample:
        sample = await take()
        gpus = (gpu if gpu.processes is None else replace(gpu, processes=explain(gpu.processes)) for gpu in sample.gpus)
        return replace(sample, gpus=tuple(gpus))

    return explained


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.node", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--boot-id", type=Path, required=True, help="the file that holds it")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_run(arguments.config, arguments.boot_id.read_text(encoding="ascii").strip()))


if __name__ == "__main__":
    main()
