"""The sections `bot.groups` and `bot.maintenance` of config.yaml: who looks after which nodes, and planned work."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from bot.maintenance import MaintenanceWindow, parse_weekly
from wire.configfile import Problem

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
    """Nodes that the same people look after. `nodes` are names with * and ?; the first group that fits counts."""

    name: str
    nodes: list[str]
    on_call: list[str] = []
    second: list[str] = []
    approvers: Approvers = Approvers()

    def problems(self) -> Iterator[Problem]:
        yield from _not_users("on_call", self.on_call)
        yield from _not_users("second", self.second)


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
