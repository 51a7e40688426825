"""The whole agent on its real collector, which measures itself and stops after so many samples.

Arguments: config file, number of samples, number of JSON lines in which it says how it is.
"""

import asyncio
import json
import logging
import os
import sys
from functools import partial
from pathlib import Path

from agent.allocation.allocations import allocations_of
from agent.clock import Clock
from agent.collectors import COLLECTORS
from agent.collectors.releasable import Releasable
from agent.config import load
from agent.known_gpus import KnownGpus
from agent.read_sample import rule_settings, take_sample
from agent.releases import Releases
from agent.run import run
from agent.verdicts import Sample


def measured(samples: int) -> dict[str, int]:
    """PSS and file handles of this process and those that it started."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    folders = [Path("/proc") / pid for pid in (str(os.getpid()), *children)]
    return {
        "samples": samples,
        "pss_kib": sum(map(pss_kib, folders)),
        "own_fds": len(os.listdir(folders[0] / "fd")),
        "worker_fds": sum(len(os.listdir(folder / "fd")) for folder in folders[1:]),
        "processes": len(folders),
    }


def pss_kib(folder: Path) -> int:
    lines = (folder / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def main() -> None:
    config, wanted, points = load(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    collector = Releasable(COLLECTORS[config.collector](config), Releases(config.state_dir, Clock()), answers=True)
    allocations = allocations_of(config)
    read = partial(take_sample, collector, KnownGpus(config.state_dir), rule_settings(config), allocations=allocations)
    stop, samples = asyncio.Event(), 0

    async def counted() -> Sample:
        nonlocal samples
        sample = await read()
        assert not sample.errors, sample.errors
        samples += 1
        if samples % (wanted // points) == 0:
            print(json.dumps(measured(samples)), flush=True)
        if samples == wanted:
            stop.set()
        return sample

    await run(config, stop, take_sample=counted)
    allocations.close()
    await collector.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    asyncio.run(main())
