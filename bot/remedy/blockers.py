"""Everything that stands in the way of a remedy, listed together; what a person may accept has a name."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from bot.judge.verdict import Said
from bot.remedy.model import Remedy
from wire.orders import SHARED_PROCESS, AcceptedProcess, Action

HEARTBEAT_SECONDS = 60.0
REBOOTS_A_DAY = 2
BUDGET_WITHIN = timedelta(hours=24)

# What may be accepted by name, in the dialog.
GPU_WORKS = "gpu_works"
UNREADABLE = "unreadable"


class Blocker(msgspec.Struct, frozen=True):
    """`name` is what is accepted; whether it may be is `acceptable`."""

    name: str
    said: Said
    acceptable: bool = False


class Switch(msgspec.Struct, frozen=True):
    """Somebody stopped all remedies."""

    by: str
    at: datetime
    reason: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """What is to be done, and what was seen when it was asked for; "" and () while it is being asked."""

    action: Action
    node: str
    runner: str = ""
    boot_id: str = ""
    spool_epoch: str = ""
    processes: tuple[AcceptedProcess, ...] | None = None
    accepted: tuple[str, ...] = ()
    about: int | None = None
    policy: str = ""
    asked_by: str = ""


class Stall(StrEnum):
    """What is known now of the stall that a remedy is about."""

    HOLDS = "holds"
    OVER = "recovered"
    OTHER = "other_verdict"
    UNSEEN = "unseen"


class Facts(msgspec.Struct, frozen=True):
    """What is known this moment. `heard_seconds` None: nothing was heard since the bot's start.

    `offers`: the node's own config allows this action on this runner; `speaks`: it knows a version of orders that this
    bot signs. `lives` counts the boots and spools that take turns under its name. `processes` None: they cannot be
    read; `others` are so many of them on GPUs that the remedy is not about, `sharing` runners that the runner's process
    serves, too. `gone` approved, and may not any more.
    `has_person`: somebody looks after the stall, so that a policy does nothing.
    `under_way` counts unfinished remedies of the node's group, `on_node` those of the node, this one left out.
    """

    heard_seconds: float | None
    boot_id: str = ""
    spool_epoch: str = ""
    lives: int = 1
    offers: bool = False
    speaks: bool = False
    has_challenge: bool = True
    highest_fence: int = 0
    fence: int = 0
    processes: frozenset[AcceptedProcess] | None = frozenset()
    others: int = 0
    sharing: tuple[str, ...] = ()
    stopped: Switch | None = None
    within_hours: bool = True
    under_way: int = 0
    at_once: int = 1
    on_node: int = 0
    reboots: int = 0
    claimed_by: str = ""
    stall: Stall = Stall.HOLDS
    approvers: int | None = None
    gone: tuple[str, ...] = ()
    has_bus: bool = True
    allows_policy: bool = False
    has_person: bool = False
    is_shadow: bool = False
    is_guest: bool = False


def blockers(wanted: Wanted, facts: Facts) -> Sequence[Blocker]:
    """All of them, those that nobody can accept first."""
    found = [blocker for rule in _RULES for blocker in rule(wanted, facts)]
    return sorted(found, key=lambda one: one.acceptable)


def unaccepted(found: Sequence[Blocker], accepted: Sequence[str]) -> Sequence[Blocker]:
    return [one for one in found if not (one.acceptable and one.name in accepted)]


def wanted_of(remedy: Remedy) -> Wanted:
    """For asking again right before the order."""
    return Wanted(
        remedy.action,
        remedy.node,
        remedy.runner,
        remedy.boot_id,
        remedy.spool_epoch,
        remedy.processes,
        remedy.accepted,
        remedy.about,
        remedy.policy,
        remedy.asked_by,
    )


def _stopped(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.stopped:
        yield _never("stopped", {"by": facts.stopped.by, "why": facts.stopped.reason or "-"})


def _shadow(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.is_shadow:
        yield _never("shadow")


def _bus(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if not facts.has_bus:
        yield _never("bus")


def _heartbeat(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    """What a silent node offers, runs or allows is not known, so nothing more is said of it."""
    if facts.heard_seconds is None:
        yield _never("never_heard")
    elif facts.heard_seconds > HEARTBEAT_SECONDS:
        yield Blocker("silent", Said("blocker.silent", seconds={"length": facts.heard_seconds}))


def _lives(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.lives > 1:
        yield _never("two_lives")


def _offered(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.heard_seconds is None:
        return
    if not facts.offers:
        yield _never(f"not_offered.{wanted.action}", {"runner": wanted.runner or "-"})
    elif not facts.speaks or not facts.has_challenge:
        yield _never("no_version")


def _policy(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if wanted.policy and not facts.allows_policy:
        yield _never("policy")
    if wanted.policy and facts.has_person:
        yield _never("person")


def _newer_bot(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.highest_fence > facts.fence:
        yield _never("newer_bot")


def _boot(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if wanted.boot_id and facts.boot_id and wanted.boot_id != facts.boot_id:
        yield _never("other_boot")
    elif wanted.spool_epoch and facts.spool_epoch and wanted.spool_epoch != facts.spool_epoch:
        yield _never("other_spool")


def _processes(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.heard_seconds is None:
        return
    if facts.processes is None:
        yield Blocker(UNREADABLE, Said("blocker.unreadable"), acceptable=True)
        return
    grown = facts.processes - set(wanted.processes) if wanted.processes is not None else frozenset()
    if grown and UNREADABLE not in wanted.accepted and wanted.action is Action.REBOOT_NODE:
        yield _never("grown", {"count": str(len(grown)), "pids": ", ".join(str(one.pid) for one in sorted(grown)[:6])})
    if facts.others:
        yield Blocker(GPU_WORKS, Said("blocker.gpu_works", {"count": str(facts.others)}), acceptable=True)


def _shared(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.sharing:
        said = Said("blocker.shared_process", {"runners": ", ".join(facts.sharing)})
        yield Blocker(SHARED_PROCESS, said, acceptable=True)


def _hours(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if not facts.within_hours:
        yield _never("hours")


def _under_way(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.on_node:
        yield _never("on_node")
    elif facts.under_way >= facts.at_once:
        yield _never("under_way", {"count": str(facts.under_way), "most": str(facts.at_once)})


def _budget(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if wanted.action is Action.REBOOT_NODE and facts.reboots >= REBOOTS_A_DAY:
        yield _never("budget", {"count": str(facts.reboots)})


def _claimed(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.claimed_by:
        yield _never("claimed", {"by": facts.claimed_by})


def _recovered(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if wanted.about is not None and facts.stall is not Stall.HOLDS:
        yield _never(str(facts.stall))


def _guest(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if facts.is_guest:
        yield _never("guest")


def _approvers(wanted: Wanted, facts: Facts) -> Iterator[Blocker]:
    if not wanted.policy and facts.approvers == 0:
        yield _never("no_approvers")
    for user in facts.gone:
        yield _never("approver_gone", {"by": user})


def _never(name: str, texts: dict[str, str] | None = None) -> Blocker:
    return Blocker(name, Said(f"blocker.{name}", texts or {}))


_RULES: Sequence[Callable[[Wanted, Facts], Iterator[Blocker]]] = (
    _stopped,
    _shadow,
    _bus,
    _heartbeat,
    _lives,
    _offered,
    _policy,
    _newer_bot,
    _boot,
    _recovered,
    _under_way,
    _budget,
    _hours,
    _claimed,
    _guest,
    _approvers,
    _processes,
    _shared,
)
