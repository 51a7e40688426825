"""Who may approve, as Slack and the config say: user groups are asked again after 5 minutes."""

import logging
from collections.abc import Callable

import msgspec

from bot import clock
from bot.groups import Group
from bot.notify import DeliveryError, Notifier
from bot.remedy.approvers import HOST, Approvers

log = logging.getLogger(__name__)

AGAIN_AFTER_SECONDS = 5 * 60.0

GroupOf = Callable[[str], Group | None]


class _Members(msgspec.Struct, frozen=True):
    users: frozenset[str]
    read_seconds: float  # on the monotonic clock


class _Person(msgspec.Struct, frozen=True):
    is_guest: bool
    read_seconds: float


class ApproverLists:
    """`of` is asked inside transactions and does no IO; `refresh` before that. `notifier` None: there is no Slack."""

    def __init__(self, group_of: GroupOf, notifier: Notifier | None) -> None:
        self._group_of = group_of
        self._notifier = notifier
        self._members: dict[str, _Members] = {}
        self._people: dict[str, _Person] = {}
        self._failing: set[str] = set()

    def of(self, node: str) -> Approvers:
        group = self._group_of(node)
        if group is None:
            return Approvers()
        approvers = group.approvers
        named = frozenset({*approvers.users, *(f"{HOST}{user}" for user in approvers.hosts)})
        found = self._members.get(approvers.user_group or "")
        members = found.users if found else frozenset()
        return Approvers(
            named=named,
            has_group=approvers.user_group is not None,
            members=members,
            members_seconds=clock.monotonic_seconds() - found.read_seconds if found else None,
            guests=frozenset(user for user, known in self._people.items() if known.is_guest),
            # A member of the user group of whom Slack could not be asked whether it is a guest.
            unknown=members - named - frozenset(self._people),
        )

    async def approves(self, user: str, node: str) -> bool:
        """Asked anew where that is needed."""
        await self.refresh(node, user)
        return user in self.of(node)

    async def refresh(self, node: str, user: str = "") -> None:
        """Asks Slack for what is not known or old; `user` is the one who presses. Never raises for what Slack does."""
        group = self._group_of(node)
        if self._notifier is None or group is None:
            return
        if group.approvers.user_group and self._is_old(self._members.get(group.approvers.user_group)):
            await self._read_group(self._notifier, group.approvers.user_group)
        if user and not user.startswith(HOST) and self._is_old(self._people.get(user)):
            await self._read_person(self._notifier, user)

    def _is_old(self, known: _Members | _Person | None) -> bool:
        return known is None or clock.monotonic_seconds() - known.read_seconds > AGAIN_AFTER_SECONDS

    async def _read_group(self, notifier: Notifier, user_group: str) -> None:
        try:
            users = await notifier.group_members(user_group)
        except DeliveryError as error:
            self._fails(user_group, error)
            return
        self._failing.discard(user_group)
        self._members[user_group] = _Members(frozenset(users), clock.monotonic_seconds())

    async def _read_person(self, notifier: Notifier, user: str) -> None:
        try:
            is_guest = await notifier.is_guest(user)
        except DeliveryError as error:
            self._fails("users.info", error)
            return
        self._failing.discard("users.info")
        self._people[user] = _Person(is_guest, clock.monotonic_seconds())

    def _fails(self, what: str, error: DeliveryError) -> None:
        if what not in self._failing:
            log.warning("Who may approve cannot be asked; what=%s error=%s", what, error)
        self._failing.add(what)
