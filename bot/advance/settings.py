"""What the config says about when people hear of something, and who."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from bot.groups import Group
from bot.incident import Who
from bot.maintenance import Maintenance, MaintenanceWindow, maintenance, matches
from bot.remedy.model import Times

FLEET_CARD_AFTER = 5  # cards of single nodes that were opened within FLEET_CARD_WITHIN
FLEET_CARD_WITHIN = timedelta(minutes=15)
MANY_NODES, MANY_SHARE = 3, 0.2
MANY_WITHIN = timedelta(minutes=10)
STORM_AFTER = 20  # new incidents within STORM_WITHIN
STORM_WITHIN = timedelta(minutes=1)
BLIND_GATHER = timedelta(seconds=30)  # nodes that are lost together are noticed one heartbeat apart at most
# Recorded and shown to those who ask.
NOT_POSTED = frozenset({"degraded", "runaway", "work_stuck"})


class AdvanceSettings(msgspec.Struct, frozen=True):
    """`gather` holds a first card back so that GPUs that become free together share it.

    `not_posted` are verdicts that are only recorded; `zone` is the channel's, for weekly maintenance. `times` are a
    remedy's, `own_boot_id` is that of the bot's own host.
    """

    gather: timedelta
    edit_every: timedelta
    shadow: bool
    groups: Sequence[Group] = ()
    calendar: Sequence[MaintenanceWindow] = ()
    zone: tzinfo = UTC
    not_posted: frozenset[str] = NOT_POSTED
    again_after: timedelta = timedelta(minutes=10)
    second_after: timedelta = timedelta(minutes=20)
    times: Times = Times()
    own_boot_id: str = ""

    def group_of(self, node: str) -> Group | None:
        return next((group for group in self.groups if matches(group.nodes, node)), None)

    def people(self, node: str, who: Who) -> Sequence[str]:
        """Whom to mention for this node. `node` "" is the fleet or the bot: everybody who looks after some of it."""
        groups = [self.group_of(node)] if node else self.groups
        named = [group.on_call if who is Who.ON_CALL else group.second for group in groups if group]
        return list(dict.fromkeys(user for users in named for user in users))

    def maintenance_of(self, node: str, now: datetime) -> Maintenance | None:
        group = self.group_of(node)
        return maintenance(self.calendar, node, group.name if group else None, now, self.zone)
