"""The state of one workspace and the ids, timestamps and secrets it hands out; no network here."""

import asyncio
import itertools
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from demo.workspace import seed
from demo.workspace.state import (
    ApiCall,
    Channel,
    Ephemeral,
    File,
    Json,
    Message,
    ResponseUrl,
    Trigger,
    User,
    UserGroup,
    Version,
    View,
)
from demo.workspace.transcript import channel_transcript

T = TypeVar("T")
MICROSECOND = timedelta(microseconds=1)


class World:
    """Look things up by name or id: `channel("gpu-oncall")`, `user("alice")`. Unknown ones raise KeyError."""

    def __init__(self, now: Callable[[], datetime], scopes: tuple[str, ...] = seed.SCOPES) -> None:
        self.now = now
        self.team = seed.TEAM
        self.scopes = set(scopes)
        self.bot_token = "xoxb-" + secrets.token_hex(16)
        self.app_token = "xapp-1-" + secrets.token_hex(16)
        self.token_revoked = False
        self.base_url = ""
        self.edit_window: timedelta | None = None
        self.users = {user.id: user for user in seed.users()}
        self.user_groups = {group.id: group for group in seed.user_groups()}
        self.channels = {channel.id: channel for channel in seed.channels()}
        self.ephemerals: list[Ephemeral] = []
        self.files: dict[str, File] = {}
        self.views: dict[str, View] = {}
        self.modals: dict[str, list[View]] = {}
        self.homes: dict[str, View] = {}
        self.calls: list[ApiCall] = []
        self.triggers: dict[str, Trigger] = {}
        self.response_urls: dict[str, ResponseUrl] = {}
        self._last_ts = datetime.fromtimestamp(0, now().tzinfo)
        self._numbers = itertools.count(1)
        self._wake = asyncio.Event()

    def user(self, name: str) -> User:
        return _found(self.users, name, lambda user: user.name)

    def channel(self, name: str) -> Channel:
        return _found(self.channels, name.removeprefix("#"), lambda channel: channel.name)

    def group(self, handle: str) -> UserGroup:
        return _found(self.user_groups, handle, lambda group: group.handle)

    @property
    def names(self) -> dict[str, str]:
        """What transcripts show for ids of people, groups and channels."""
        people = {user.id: "@" + user.name for user in self.users.values()}
        groups = {group.id: "@" + group.handle for group in self.user_groups.values()}
        return people | groups | {channel.id: "#" + channel.name for channel in self.channels.values()}

    def transcript(self, channel: str) -> str:
        """The channel as plain text, see transcript.py."""
        return channel_transcript(self.channel(channel), self.names)

    def add_user(self, name: str, **fields: Any) -> User:
        user = User(
            self.new_id("U"), name, fields.pop("real_name", name), fields.pop("team_id", self.team.id), **fields
        )
        self.users[user.id] = user
        return user

    def add_channel(self, name: str, members: list[str] | None = None, **fields: Any) -> Channel:
        """Without `members` everyone of this team is in it, the app too. Ids or names."""
        inside = [u.id for u in self.users.values() if u.team_id == self.team.id]
        if members is not None:
            inside = [self.user(member).id for member in members]
        channel = Channel(self.new_id("C"), name, inside, **fields)
        self.channels[channel.id] = channel
        return channel

    def direct_message(self, user_id: str) -> Channel:
        """The conversation between the app and this person, made when missing."""
        for channel in self.channels.values():
            if channel.is_im and user_id in channel.members:
                return channel
        channel = Channel(self.new_id("D"), user_id, [seed.BOT_USER_ID, user_id], is_im=True)
        self.channels[channel.id] = channel
        return channel

    def new_id(self, prefix: str) -> str:
        return f"{prefix}1{next(self._numbers):07d}"

    def next_ts(self) -> str:
        """Unique and increasing, also when the clock stands still or jumps back."""
        self._last_ts = max(self.now(), self._last_ts + MICROSECOND)
        seconds = int(self._last_ts.timestamp())
        return f"{seconds}.{self._last_ts.microsecond:06d}"

    def new_trigger(self, user_id: str, view_id: str | None = None) -> Trigger:
        trigger = Trigger(f"{next(self._numbers)}.{self.team.id}.{secrets.token_hex(8)}", user_id, self.now())
        trigger.view_id = view_id
        self.triggers[trigger.id] = trigger
        return trigger

    def new_response_url(
        self, user_id: str, channel_id: str, message: Message | None = None, ephemeral: Ephemeral | None = None
    ) -> ResponseUrl:
        url = ResponseUrl(secrets.token_hex(12), user_id, channel_id, self.now(), message, ephemeral)
        self.response_urls[url.token] = url
        return url

    def response_address(self, url: ResponseUrl) -> str:
        return f"{self.base_url}/response/{url.token}"

    def version(self, text: str, blocks: list[Json]) -> Version:
        return Version(self.now(), text, self.with_ids(blocks))

    def with_ids(self, blocks: list[Json]) -> list[Json]:
        """Slack fills in a block_id, and an action_id of interactive elements, where none was given."""
        return [self._with_id(block) for block in blocks]

    def _with_id(self, block: Json) -> Json:
        filled = {**block, "block_id": block.get("block_id") or f"b{next(self._numbers)}"}
        for field in ("elements", "accessory", "element"):
            part = filled.get(field)
            if isinstance(part, dict):
                filled[field] = self._with_action_id(part)
            elif isinstance(part, list) and filled.get("type") == "actions":
                filled[field] = [self._with_action_id(element) for element in part]
        if isinstance(filled.get("child_blocks"), list):
            filled["child_blocks"] = self.with_ids(filled["child_blocks"])
        return filled

    def _with_action_id(self, element: Json) -> Json:
        if element.get("type") == "image" or element.get("action_id"):
            return element
        return {**element, "action_id": f"a{next(self._numbers)}"}

    def show_ephemeral(self, ephemeral: Ephemeral) -> Ephemeral:
        self.ephemerals.append(ephemeral)
        self.changed()
        return ephemeral

    def top_modal(self, user_id: str) -> View | None:
        stack = self.modals.get(user_id)
        return stack[-1] if stack else None

    def changed(self) -> None:
        """Wakes everyone in `until`."""
        wake, self._wake = self._wake, asyncio.Event()
        wake.set()

    async def until(self, condition: Callable[[], T], seconds: float = 20.0) -> T:
        """The first true value of `condition`. Raises TimeoutError after `seconds` of real time."""
        async with asyncio.timeout(seconds):
            while True:
                wake = self._wake
                if value := condition():
                    return value
                await wake.wait()


def _found(things: dict[str, T], name: str, label: Callable[[T], str]) -> T:
    if name in things:
        return things[name]
    for thing in things.values():
        if label(thing) == name:
            return thing
    raise KeyError(f"{name}: not in this workspace; there are {', '.join(map(label, things.values()))}")
