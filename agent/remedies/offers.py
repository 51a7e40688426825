"""What this node's config offers, for the guard and for heartbeats."""

from collections.abc import Sequence

from agent.remedies.act import way
from agent.remedies.facts import Allowed, Limit
from agent.remedy_config import Reboot, Remedies, Restart
from wire.orders import ORDER_VERSION
from wire.remedies import AutoRemedy, JournalEntry, NodeRemedies
from wire.ticks import sentence


def allowed_of(remedies: Remedies) -> Allowed:
    return Allowed(
        restarts={name: _limit(how) for name, how in remedies.restart_runner.items()},
        reboot=None if remedies.reboot_node is None else _limit(remedies.reboot_node),
        auto_remedy=AutoRemedy(remedies.auto_remedy),
    )


def node_remedies(
    remedies: Remedies, challenge: str, highest_fence: int, journal: Sequence[JournalEntry]
) -> NodeRemedies:
    is_auto = remedies.auto_remedy != "off"
    return NodeRemedies(
        order_versions=[ORDER_VERSION],
        challenge=challenge,
        highest_fence=highest_fence,
        journal=list(journal),
        restart_runner={name: sentence(way(how)) for name, how in remedies.restart_runner.items()},
        reboot_node=None if remedies.reboot_node is None else way(remedies.reboot_node),
        auto_remedy=AutoRemedy(remedies.auto_remedy),
        policy_line=f"agent.remedies.auto_remedy: {remedies.auto_remedy}" if is_auto else "",
    )


def _limit(how: Restart | Reboot) -> Limit:
    return Limit(how.minimum_interval.total_seconds(), how.per_day)
