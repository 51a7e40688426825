"""Puts on a stall's finding which remedies its card offers."""

from msgspec.structs import replace

from bot.advance.remedies import Remedies
from bot.fleet import Fleet
from bot.incident import Finding, Kind, Said
from bot.judge.verdict import Presence
from bot.remedy.model import State
from bot.remedy.on_offer import Evidence, OnOffer, on_offer
from wire.orders import Action

_TRIED = (State.DONE, State.FAILED)  # and the stall is here, still or again


class Offers:
    """By the node's latest heartbeat, and by what was tried within a day."""

    def __init__(self, fleet: Fleet, remedies: Remedies) -> None:
        self._fleet = fleet
        self._remedies = remedies

    def put_on(self, finding: Finding) -> Finding:
        if finding.kind is not Kind.RUNNER or finding.presence is not Presence.PRESENT:
            return finding
        found = self._of(finding)
        lines = (*finding.lines, Said("remedy.inspect")) if found.inspect else finding.lines
        return replace(finding, remedies=found.actions, lines=lines)

    def _of(self, finding: Finding) -> OnOffer:
        node, _, runner = finding.subject.partition("/")
        seen, known = self._fleet.seen(node), self._fleet.runners.of(node).get(runner)
        offered = seen.heartbeat.remedies if seen else None
        if offered is None or known is None:
            return OnOffer()
        acted = [one for one in self._remedies.acted if one.node == node]
        evidence = Evidence(
            what=finding.what,
            signal_class=known.tick.signal_class,
            has_witness=any(line.key == "remedy.reboot" for line in finding.lines),
            restarted=any(
                one.action is Action.RESTART_RUNNER and one.runner == runner and one.state in _TRIED for one in acted
            ),
            reboots=sum(one.action is Action.REBOOT_NODE for one in acted),
        )
        return on_offer(evidence, list(offered.restart_runner), runner, may_reboot=offered.reboot_node is not None)
