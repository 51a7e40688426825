"""What is known this moment of everything that may stand in a remedy's way."""

from sqlalchemy import Connection

from bot import clock
from bot.advance.settings import AdvanceSettings
from bot.fleet import Fleet
from bot.groups import Group
from bot.incident import Incident, Kind
from bot.incident.runner import RESTARTABLE
from bot.judge.verdict import Presence
from bot.remedy.approvers import Approvers, no_longer
from bot.remedy.blockers import BUDGET_WITHIN, Facts, Stall, Wanted
from bot.remedy.look import processes_of, sharing
from bot.remedy.model import Remedy, State
from bot.store import incidents, leases, remedies
from wire.messages import Heartbeat
from wire.orders import ORDER_VERSION, Action
from wire.remedies import AutoRemedy, NodeRemedies

_ALLOWED = {
    AutoRemedy.RESTART: frozenset({Action.RESTART_RUNNER}),
    AutoRemedy.RESTART_THEN_REBOOT: frozenset({Action.RESTART_RUNNER, Action.REBOOT_NODE}),
}


class Obstacles:
    """Reads only; decides nothing."""

    def __init__(self, fleet: Fleet, settings: AdvanceSettings) -> None:
        self._fleet = fleet
        self._settings = settings

    def facts(
        self,
        connection: Connection,
        wanted: Wanted,
        *,
        approvers: Approvers,
        has_bus: bool,
        number: int = 0,
        request: Remedy | None = None,
    ) -> Facts:
        """As of this moment, in the caller's transaction. `number` is the request's own, which is not in its way."""
        seen, group = self._fleet.seen(wanted.node), self._settings.group_of(wanted.node)
        beat = seen.heartbeat if seen else None
        offered = beat.remedies if beat else None
        other = remedies.unfinished_of(connection, wanted.node)
        now = clock.now()
        return Facts(
            heard_seconds=seen.age_seconds if seen else None,
            boot_id=beat.boot_id if beat else "",
            spool_epoch=beat.spool_epoch if beat else "",
            lives=2 if self._fleet.has_two_lives(wanted.node) else 1,
            offers=offers(offered, wanted.action, wanted.runner),
            speaks=offered is not None and ORDER_VERSION in offered.order_versions,
            has_challenge=offered is not None and bool(offered.challenge),
            highest_fence=offered.highest_fence if offered else 0,
            fence=leases.fence_number(connection),
            processes=processes_of(beat) if beat else None,
            others=_others(beat, wanted),
            sharing=sharing(beat, wanted.runner) if beat else (),
            stopped=remedies.stopped(connection),
            within_hours=group is None or group.allows_remedies(now, self._settings.zone),
            under_way=self._under_way(connection, group, number),
            at_once=group.remedies_at_once if group else 1,
            on_node=int(other is not None and other.id != number),
            reboots=remedies.count_reboots(connection, wanted.node, now - BUDGET_WITHIN, number),
            claimed_by=self._claimed_by(wanted),
            stall=self._stall(connection, wanted.about),
            approvers=0 if approvers.is_nobody else None,
            gone=tuple(no_longer(request, approvers)) if request else (),
            has_bus=has_bus,
            is_shadow=self._settings.shadow,
            is_guest=wanted.asked_by in approvers.guests,
            allows_policy=self.allows_policy(wanted.node, wanted.action),
            has_person=self._has_person(connection, wanted.about),
        )

    def allows_policy(self, node: str, action: Action) -> bool:
        """Only what both configs say: the node's own, and the bot's."""
        seen, group = self._fleet.seen(node), self._settings.group_of(node)
        offered = seen.heartbeat.remedies if seen else None
        if offered is None or group is None:
            return False
        ours = _ALLOWED.get(AutoRemedy(group.auto_remedy), frozenset())
        return action in ours and action in _ALLOWED.get(offered.auto_remedy, frozenset())

    def policy_line(self, node: str) -> str:
        """What the operator wrote down, on both sides."""
        seen, group = self._fleet.seen(node), self._settings.group_of(node)
        offered = seen.heartbeat.remedies if seen else None
        ours = f"bot.groups {group.name}: auto_remedy: {group.auto_remedy}" if group else "-"
        return f"{ours}; on the node: {offered.policy_line if offered else '-'}"[:200]

    def _under_way(self, connection: Connection, group: Group | None, number: int) -> int:
        """By the groups that nodes belong to now: a config may have renamed them since a request was made."""
        nodes = remedies.nodes_under_way(connection, but=number)
        return sum(self._settings.group_of(node) is group for node in nodes)

    def _claimed_by(self, wanted: Wanted) -> str:
        holders = [claim.by for claim in self._fleet.claims_of(wanted.node).values() if claim.by != wanted.asked_by]
        return holders[0] if holders and wanted.action is Action.REBOOT_NODE else ""

    def _stall(self, connection: Connection, about: int | None) -> Stall:
        incident = incidents.load(connection, about) if about else None
        return stall_of(incident) if incident else Stall.OVER

    def _has_person(self, connection: Connection, about: int | None) -> bool:
        incident = incidents.load(connection, about) if about else None
        return incident is not None and has_a_person(incident)


def has_a_person(incident: Incident) -> bool:
    """Whoever acknowledged, disputed or snoozed it, or stopped or denied a remedy for it, decides from then on."""
    is_looked_at = incident.acknowledged_by or incident.disputed_by or incident.quiet
    return bool(is_looked_at) or any(one.state in (State.STOPPED, State.DENIED) for one in incident.tried)


def stall_of(incident: Incident) -> Stall:
    """Whether it is open, something that a remedy may end, and seen now."""
    finding = incident.finding
    if incident.closed_at is not None:
        return Stall.OVER
    if incident.kind is not Kind.RUNNER or incident.what not in RESTARTABLE or finding is None:
        return Stall.OTHER
    return Stall.HOLDS if finding.presence is Presence.PRESENT else Stall.UNSEEN


def is_remediable(incident: Incident) -> bool:
    return stall_of(incident) is Stall.HOLDS


def offers(offered: NodeRemedies | None, action: Action, runner: str) -> bool:
    """Whether the node's own config allows it."""
    if offered is None:
        return False
    return offered.reboot_node is not None if action is Action.REBOOT_NODE else runner in offered.restart_runner


def _others(beat: Heartbeat | None, wanted: Wanted) -> int:
    """Processes that a reboot kills beside the runner's own."""
    listed = processes_of(beat) if beat else None
    if listed is None or beat is None or wanted.action is Action.RESTART_RUNNER:
        return 0
    own = {tick.pid for tick in beat.runners if tick.runner == wanted.runner}
    return sum(one.pid not in own for one in listed)
