"""What work costs on this machine: wall time, the process's own CPU time, one core, and how fast that core is."""

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

_YARDSTICK = 2_000_000


@dataclass
class Spent:
    """Seconds; `cpu_seconds` are those of all threads of this process."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextlib.contextmanager
def measured() -> Iterator[Spent]:
    """Filled when the block ends."""
    gc.collect()
    spent, wall, cpu = Spent(), time.perf_counter(), time.process_time()
    yield spent
    spent.wall_seconds, spent.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu


@dataclass
class Counted:
    """Calls of functions, of Python and of C, in all threads that were started meanwhile and in this one."""

    calls: int = 0


@contextlib.contextmanager
def counted_calls() -> Iterator[Counted]:
    """Work that no machine does faster than another; counting makes it several times slower."""
    counted = Counted()

    def count(_: FrameType, event: str, __: object) -> None:
        counted.calls += event in ("call", "c_call")

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """This thread, and the threads and processes that it starts meanwhile, share one core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def yardstick_seconds() -> float:
    """CPU time of two million additions of small integers in a Python loop: compare machines, and moments, by it."""
    begin, total = time.process_time(), 0
    for number in range(_YARDSTICK):
        total += number & 7
    return time.process_time() - begin
