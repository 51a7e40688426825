"""Turns itself into the program in its arguments, which then ends when its starter does, even after kill -9.

Run as a file by a bare interpreter, so that nothing runs between fork and exec in the starter, which has threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":  # elsewhere an orphan is found and stopped at the next start
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the line above
            sys.exit(f"whoever started {command[0]} ended while it was starting")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
