"""Who may ask at all: members of the bot's own workspace, in its channels or in a direct message."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from bot.notify import DeliveryError, Notifier

log = logging.getLogger(__name__)

OTHER_CHANNEL = "reply.other_channel"


class Asked(msgspec.Struct, frozen=True):
    """Where a click or a command comes from. Slack's ids; "" where the payload does not say."""

    team: str
    user: str
    users_team: str
    channel: str
    message_ts: str = ""
    is_home: bool = False


def asked_by_click(body: Mapping[str, Any]) -> Asked:
    user, container = body.get("user") or {}, body.get("container") or {}
    channel = (body.get("channel") or {}).get("id") or container.get("channel_id")
    return Asked(
        team=str((body.get("team") or {}).get("id") or ""),
        user=str(user.get("id") or ""),
        users_team=str(user.get("team_id") or ""),
        channel=str(channel or ""),
        message_ts=str(container.get("message_ts") or ""),
        is_home=(body.get("view") or {}).get("type") == "home",
    )


def asked_by_command(body: Mapping[str, Any]) -> Asked:
    team, user = str(body.get("team_id") or ""), str(body.get("user_id") or "")
    return Asked(team, user, "", str(body.get("channel_id") or ""))


class Gate:
    """`refusal` asks Slack once who the bot is, and remembers it."""

    def __init__(self, notifier: Notifier, channels: Collection[str]) -> None:
        self._notifier = notifier
        self._channels = frozenset(channels)
        self._team: str | None = None

    async def refusal(self, asked: Asked) -> str | None:
        """The key of the sentence that says why not; None when the person may."""
        refused = await self.refusal_of_person(asked)
        is_inside = asked.is_home or asked.channel.startswith("D") or asked.channel in self._channels
        return refused or (None if is_inside else OTHER_CHANNEL)

    async def refusal_of_person(self, asked: Asked) -> str | None:
        """The same for what is in no channel: a dialog, the App Home."""
        team = await self._own_team()
        if team is None:
            return "reply.team_unknown"
        if asked.team != team or asked.users_team not in ("", team):
            return "reply.other_team"
        return None

    async def _own_team(self) -> str | None:
        if self._team is None:
            try:
                self._team = (await self._notifier.identity()).team or None
            except DeliveryError as error:
                log.warning("The bot's own workspace cannot be told, clicks are refused; error=%s", error)
        return self._team
