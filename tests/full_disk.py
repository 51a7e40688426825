"""A disk that is full, as far as this process can tell."""

import contextlib
import resource
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def no_file_larger_than(size_bytes: int) -> Iterator[None]:
    """What is written beyond that is refused, in every file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
