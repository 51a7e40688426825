"""systemd's word about us: that we are ready, and, while we work, that its watchdog need not bite."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)


async def supervised(why_not: Callable[[], str | None], environment: Mapping[str, str] = os.environ) -> None:
    """Says READY=1 once and WATCHDOG=1 at half of systemd's patience, until it is cancelled.

    While `why_not` gives a reason, systemd is told the reason and no more: it restarts us when that lasts too long.
    Ends at once where no systemd waits for it (no NOTIFY_SOCKET).
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    patience_seconds = int(environment.get("WATCHDOG_USEC") or 0) / 1e6
    _say(address, "READY=1")
    told: str | None = None
    while patience_seconds:
        why = why_not()
        if why is None:
            _say(address, "WATCHDOG=1\nSTATUS=works" if told else "WATCHDOG=1")
        elif why != told:
            _say(address, f"STATUS={why}")
        told = why
        await asyncio.sleep(patience_seconds / 2)


def _say(address: str, words: str) -> None:
    """One datagram; "@" stands for the abstract namespace."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd:
            to_systemd.sendto(words.encode(), "\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        log.warning("systemd does not hear us error=%s", error.strerror)
