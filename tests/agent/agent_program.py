"""The real agent on a trivial sampler, in a process that a test may kill (arguments: config file, boot id)."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

from agent.clock import Clock
from agent.config import load
from agent.run import run
from agent.verdicts import Sample
from tests.agent.build_samples import idle, sample


class ClockOfBoot(Clock):
    """The real clocks, with the boot id that the test names."""

    def boot_id(self) -> str:
        return sys.argv[2]


async def take_sample() -> Sample:
    return sample(idle(0), idle(1))


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run(load(Path(sys.argv[1])), stop, clock=ClockOfBoot(), take_sample=take_sample)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(main())
