"""The sections `bot.groups` and `bot.maintenance` of config.yaml: who looks after which nodes, and planned work."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, tzinfo
from typing import Literal

import msgspec

from bot.maintenance import MaintenanceWindow, is_within, parse_weekly
from wire import bounds
from wire.configfile import Problem

AutoRemedy = Literal["off", "restart", "restart_then_reboot"]

_USER_ID = re.compile(r"[UW][A-Z0-9]{2,20}", re.ASCII)
_USER_GROUP_ID = re.compile(r"S[A-Z0-9]{2,20}", re.ASCII)


class Approvers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may approve what changes a node: Slack users, the members of a Slack user group, users of the bot's host."""

    users: list[str] = []
    user_group: str | None = None
    hosts: list[str] = []

    def problems(self) -> Iterator[Problem]:
        yield from _not_users("users", self.users)
        if self.user_group is not None and not _USER_GROUP_ID.fullmatch(self.user_group):
            yield Problem("user_group", "wants a user group's id, for example S0123456789")


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that the same people look after. `nodes` are names with * and ?; the first group that fits counts.

    `approvals`: so many people must agree to a remedy. `remedy_hours` None: at any time. `auto_remedy`: what may be
    done without a person, where the node's own config says so, too.
    """

    name: str
    nodes: list[str]
    on_call: list[str] = []
    second: list[str] = []
    approvers: Approvers = Approvers()
    approvals: Literal[1, 2] = 1
    remedy_hours: str | None = None
    remedies_at_once: int = 1
    auto_remedy: AutoRemedy = "off"

    def problems(self) -> Iterator[Problem]:
        yield from _not_users("on_call", self.on_call)
        yield from _not_users("second", self.second)
        if self.remedy_hours is not None:
            yield from _unless_parsed("remedy_hours", self.remedy_hours, parse_weekly, "Mon-Fri 09:00-18:00")
        yield from bounds.outside([("remedies_at_once", self.remedies_at_once, 1, 100)])
        if self.approvals > 1 and _fewest_approvers(self.approvers) < self.approvals:
            yield Problem("approvals", "wants two approvers at least: name them in approvers, or a user_group")

    def allows_remedies(self, now: datetime, zone: tzinfo) -> bool:
        """Whether this is an hour for remedies, on the channel's clock."""
        return self.remedy_hours is None or is_within(parse_weekly(self.remedy_hours), now, zone)


class MaintenanceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either `weekly`, or `until` (and `since`), on the clock of slack.time_zone; for `nodes` and for `groups`."""

    nodes: list[str] = []
    groups: list[str] = []
    weekly: str | None = None
    since: str | None = None
    until: str | None = None
    reason: str = ""

    def problems(self) -> Iterator[Problem]:
        if not self.nodes and not self.groups:
            yield Problem("", "names neither nodes nor groups: it would keep nothing quiet")
        if (self.weekly is None) == (self.until is None):
            yield Problem("", "wants either weekly or until: a maintenance without an end would hide everything")
        if self.weekly is not None:
            yield from _unless_parsed("weekly", self.weekly, parse_weekly, "Sun 02:00-04:00 or Mon-Fri 22:00-06:00")
        for key, text in (("since", self.since), ("until", self.until)):
            if text is not None:
                yield from _unless_parsed(key, text, _local_time, "2026-12-24 18:00")

    def window(self) -> MaintenanceWindow:
        return MaintenanceWindow(
            nodes=tuple(self.nodes),
            groups=tuple(self.groups),
            weekly=parse_weekly(self.weekly) if self.weekly else None,
            since=_local_time(self.since) if self.since else None,
            until=_local_time(self.until) if self.until else None,
            reason=self.reason,
        )


def _fewest_approvers(approvers: Approvers) -> int:
    """A user group may hold anybody, so it counts as enough."""
    return 2 if approvers.user_group else len({*approvers.users, *approvers.hosts})


def _not_users(key: str, users: list[str]) -> Iterator[Problem]:
    for user in users:
        if not _USER_ID.fullmatch(user):
            yield Problem(key, f"wants users' ids, not their names: in the profile under Copy member ID, got {user}")


def _unless_parsed(key: str, text: str, parse: Callable[[str], object], example: str) -> Iterator[Problem]:
    try:
        parse(text)
    except ValueError:
        yield Problem(key, f"is not understood, for example {example}")


def _local_time(text: str) -> datetime:
    """Without a zone: it is meant on the clock of slack.time_zone."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M")  # noqa: DTZ007
