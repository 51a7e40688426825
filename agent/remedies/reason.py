"""Writes why this node is rebooted to where people look after the boot: the system's journal."""

import logging
import socket
from pathlib import Path

from wire.orders import Action, Order
from wire.remedies import LONGEST_DETAIL
from wire.ticks import sentence

log = logging.getLogger(__name__)

JOURNAL_SOCKET = Path("/run/systemd/journal/socket")
_WARNING = 4


def reason_of(order: Order) -> str:
    """One line: what, who, why. Foreign words in it are made printable."""
    what = "reboots this node" if order.action is Action.REBOOT_NODE else f"restarts {_runner(order)}"
    who = f"by the policy {order.policy}" if order.policy else f"approved by {', '.join(order.approvers)}"
    about = f", incident {order.incident_id} ({order.verdict})" if order.incident_id else ""
    why = f": {order.reason}" if order.reason else ""
    return sentence(f"gpu-oncall {what}, {who}, order {order.order_id}{about}{why}", LONGEST_DETAIL)


def note(reason: str, path: Path = JOURNAL_SOCKET) -> None:
    """In our own log, and in the journal where there is one; never raises and never waits."""
    log.warning("%s", reason)
    fields = f"MESSAGE={reason}\nPRIORITY={_WARNING}\nSYSLOG_IDENTIFIER=gpu-oncall-agent\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.setblocking(False)
            journal.sendto(fields.encode(), str(path))
    except OSError as error:
        log.info("the system's journal does not take the reason path=%s error=%s", path, error.strerror or error)


def _runner(order: Order) -> str:
    return "" if order.runner is None else order.runner.runner
