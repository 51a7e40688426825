"""The real agent that takes orders, in a process that a test may kill (arguments: config, boot id, when to die).

Its GPU's processes are the pids in the file `pids` beside the config. It dies like a power cut as soon as its journal
holds an order in the state that the third argument names: before anything later is done.
"""

import asyncio
import logging
import os
import signal
import sys
from datetime import datetime
from pathlib import Path

from agent.clock import Clock
from agent.config import load
from agent.processes import explain
from agent.remedies.journal import FILE_NAME
from agent.run import run
from agent.verdicts import Sample
from tests.agent.build_samples import held, sample, unknown
from wire.messages import Process

CONFIG = Path(sys.argv[1])
DIES_AT = sys.argv[3] if len(sys.argv) > 3 else ""


class DyingClock(Clock):
    """Between the journal and the act a heartbeat is sent, and it wants to know the time."""

    def boot_id(self) -> str:
        return sys.argv[2]

    def wall(self) -> datetime:
        journal = CONFIG.parent / "state" / FILE_NAME
        if DIES_AT and journal.exists() and f'"state":"{DIES_AT}"' in journal.read_text():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().wall()


async def take_sample() -> Sample:
    pids = (CONFIG.parent / "pids").read_text().split()
    if pids == ["unreadable"]:
        return sample(unknown(0))
    return sample(held(0, processes=explain([Process(int(pid)) for pid in pids])))


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run(load(CONFIG), stop, clock=DyingClock(), take_sample=take_sample)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(main())
