"""Who may approve: decided by ids, and refused where the list is too old to be believed."""

from collections.abc import Collection

import msgspec

from bot.remedy.model import Remedy

OLDEST_SECONDS = 15 * 60.0
HOST = "host:"


class Approvers(msgspec.Struct, frozen=True):
    """`named` are Slack user ids and host:<user> of the config. `members` are those of its Slack user group.

    `members_seconds` is how old that list is; None: there is no group, or it was never read. `guests` are people of
    whom Slack says that they are no full members, `unknown` those of whom it could not be asked.
    """

    named: frozenset[str] = frozenset()
    has_group: bool = False
    members: frozenset[str] = frozenset()
    members_seconds: float | None = None
    guests: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    def __contains__(self, user: str) -> bool:
        if user in self.guests or user in self.unknown:
            return False
        return user in self.named or (self.is_group_known and user in self.members)

    @property
    def is_group_known(self) -> bool:
        return self.members_seconds is not None and self.members_seconds <= OLDEST_SECONDS

    @property
    def is_nobody(self) -> bool:
        return not self.named and not self.has_group

    def people(self) -> list[str]:
        """Those who can be mentioned."""
        everybody = self.named | (self.members if self.is_group_known else frozenset())
        return sorted(one for one in everybody if not one.startswith(HOST))


def refusal(remedy: Remedy, user: str, approvers: Approvers) -> str | None:
    """The key of the sentence that says why this person may not approve this request; None: they may."""
    if user in approvers.guests:
        return "refused.guest"
    if user in approvers.unknown:
        return "refused.person_unknown"
    if user not in approvers:
        unknown = approvers.has_group and not approvers.is_group_known
        return "refused.approvers_old" if unknown else "refused.not_approver"
    if remedy.needed > 1 and user == remedy.asked_by:
        return "refused.own_request"
    if any(one.by == user for one in remedy.approvals):
        return "refused.approved_already"
    return None


def no_longer(remedy: Remedy, approvers: Approvers) -> Collection[str]:
    """Of those who approved, the ones who may not any more."""
    return [one.by for one in remedy.approvals if one.by not in approvers]
