"""The real agent on a simulated machine: its boot id lies in a file, so that a new one is a new boot."""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from agent.clock import Clock
from agent.config import load
from agent.run import run


class ClockOfBoot(Clock):
    """The real clocks, with the boot that the machine was in when this process began."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id

    def boot_id(self) -> str:
        return self._boot_id


async def _run(config: Path, boot_id: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run(load(config), stop, clock=ClockOfBoot(boot_id))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.node", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--boot-id", type=Path, required=True, help="the file that holds it")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_run(arguments.config, arguments.boot_id.read_text(encoding="ascii").strip()))


if __name__ == "__main__":
    main()
