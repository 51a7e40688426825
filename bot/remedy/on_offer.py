"""Which remedies a stall's card offers: those that the node allows and that have the evidence."""

from collections.abc import Sequence

import msgspec

from bot.remedy.blockers import REBOOTS_A_DAY
from wire.orders import Action
from wire.ticks import SignalClass

_RESTARTABLE = frozenset({"stalled", "uncertain", "load_stuck", "erroring"})


class Evidence(msgspec.Struct, frozen=True):
    """`what` is the verdict. `has_witness`: a part below the runner is broken. `restarted`: a restart within a day did
    not end it. `reboots` of the node within a day."""

    what: str
    signal_class: SignalClass
    has_witness: bool
    restarted: bool
    reboots: int


class OnOffer(msgspec.Struct, frozen=True):
    """`inspect`: a reboot has the evidence, and was tried often enough."""

    actions: tuple[Action, ...] = ()
    inspect: bool = False


def on_offer(evidence: Evidence, restarts: Sequence[str], runner: str, *, may_reboot: bool) -> OnOffer:
    """`restarts` are the runners that the node lets be restarted, `may_reboot` whether it may be rebooted."""
    if evidence.what not in _RESTARTABLE:
        return OnOffer()
    actions = [Action.RESTART_RUNNER] if runner in restarts else []
    if not (may_reboot and _speaks_for_a_reboot(evidence)):
        return OnOffer(tuple(actions))
    if evidence.reboots >= REBOOTS_A_DAY:
        return OnOffer(tuple(actions), inspect=True)
    return OnOffer((*actions, Action.REBOOT_NODE))


def _speaks_for_a_reboot(evidence: Evidence) -> bool:
    """Class Q has no canary that could fail again: only a broken part speaks for it."""
    if evidence.what != "stalled":
        return False
    return evidence.has_witness or (evidence.restarted and evidence.signal_class is not SignalClass.Q)
