"""conversations.*: channels, their members and their history, page by page."""

import base64
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from demo.workspace import seed
from demo.workspace.arguments import flag, text, whole
from demo.workspace.errors import SlackError
from demo.workspace.messages import as_slack, visible_channel
from demo.workspace.state import Channel, Json, Message
from demo.workspace.world import World

LONGEST_PAGE = 1000
Row = TypeVar("Row")


def info(world: World, arguments: Json) -> Json:
    channel = visible_channel(world, text(arguments, "channel"))
    require_scope(world, channel, "read")
    return {"channel": as_slack_channel(channel)}


def list_channels(world: World, arguments: Json) -> Json:
    kinds = (text(arguments, "types") or "public_channel").split(",")
    hide_archived = flag(arguments, "exclude_archived")
    rows = [
        as_slack_channel(channel)
        for channel in world.channels.values()
        if _kind(channel) in kinds and _is_visible(channel) and not (hide_archived and channel.is_archived)
    ]
    page, cursor = page_of(rows, arguments, 100)
    return {"channels": page, "response_metadata": {"next_cursor": cursor}}


def members(world: World, arguments: Json) -> Json:
    channel = visible_channel(world, text(arguments, "channel"))
    require_scope(world, channel, "read")
    page, cursor = page_of(channel.members, arguments, 100)
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


def open_direct(world: World, arguments: Json) -> Json:
    """One person only; several would be a group conversation, which this workspace does not have."""
    people = [user_id for user_id in text(arguments, "users").split(",") if user_id]
    if not people:
        raise SlackError("users_list_not_supplied")
    if len(people) > 1:
        raise SlackError("not_enough_users", ["this workspace opens direct messages with one person only"])
    if people[0] not in world.users:
        raise SlackError("user_not_found")
    channel = world.direct_message(people[0])
    full = as_slack_channel(channel) if flag(arguments, "return_im") else {"id": channel.id}
    return {"channel": full}


def history(world: World, arguments: Json) -> Json:
    """Newest first, without replies, as Slack does."""
    channel = _readable(world, arguments)
    roots = [message for message in channel.shown if not message.is_reply]
    return _page_of_messages(world, arguments, _between(roots, arguments)[::-1])


def replies(world: World, arguments: Json) -> Json:
    """The parent first, then its replies, oldest first."""
    channel = _readable(world, arguments)
    found = channel.messages.get(text(arguments, "ts"))
    if found is None or found.deleted_at is not None:
        raise SlackError("thread_not_found")
    parent = channel.messages[found.thread_ts or found.ts]
    return _page_of_messages(world, arguments, [parent, *_between(channel.replies(parent), arguments)])


def require_scope(world: World, channel: Channel, verb: str) -> None:
    """`channels:`, `groups:` or `im:` by the kind of the channel. Raises SlackError missing_scope."""
    prefix = {"public_channel": "channels", "private_channel": "groups", "im": "im"}[_kind(channel)]
    if f"{prefix}:{verb}" not in world.scopes:
        raise SlackError("missing_scope", needed=f"{prefix}:{verb}", provided=",".join(sorted(world.scopes)))


def as_slack_channel(channel: Channel) -> Json:
    if channel.is_im:
        other = next(user_id for user_id in channel.members if user_id != seed.BOT_USER_ID)
        return {"id": channel.id, "is_im": True, "is_channel": False, "user": other, "is_archived": False}
    return {
        "id": channel.id,
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": not channel.is_private,
        "is_group": channel.is_private,
        "is_im": False,
        "is_private": channel.is_private,
        "is_archived": channel.is_archived,
        "is_shared": channel.is_shared,
        "is_ext_shared": channel.is_shared,
        "is_general": channel.name == "general",
        "is_member": seed.BOT_USER_ID in channel.members,
        "num_members": len(channel.members),
    }


def page_of(rows: Sequence[Row], arguments: Json, default_limit: int) -> tuple[list[Row], str]:
    """One page and the cursor of the next one, empty at the end."""
    limit = whole(arguments, "limit", default_limit)
    if not 1 <= limit <= LONGEST_PAGE:
        raise SlackError("invalid_limit")
    start = _offset(text(arguments, "cursor"))
    end = start + limit
    cursor = base64.b64encode(f"next:{end}".encode()).decode() if end < len(rows) else ""
    return list(rows[start:end]), cursor


def _offset(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        return int(base64.b64decode(cursor, validate=True).decode().removeprefix("next:"))
    except ValueError as error:
        raise SlackError("invalid_cursor") from error


def _readable(world: World, arguments: Json) -> Channel:
    channel = visible_channel(world, text(arguments, "channel"))
    require_scope(world, channel, "history")
    if seed.BOT_USER_ID not in channel.members:
        raise SlackError("not_in_channel")
    return channel


def _page_of_messages(world: World, arguments: Json, messages: list[Message]) -> Json:
    page, cursor = page_of(messages, arguments, 100)
    with_metadata = flag(arguments, "include_all_metadata")
    return {
        "messages": [as_slack(world, message, with_metadata) for message in page],
        "has_more": bool(cursor),
        "response_metadata": {"next_cursor": cursor},
    }


def _between(messages: list[Message], arguments: Json) -> list[Message]:
    oldest = _instant(arguments, "oldest", Decimal(0))
    latest = _instant(arguments, "latest", Decimal("Infinity"))
    inclusive = flag(arguments, "inclusive")
    return [
        message
        for message in messages
        if oldest < Decimal(message.ts) < latest or (inclusive and Decimal(message.ts) in (oldest, latest))
    ]


def _instant(arguments: Json, name: str, default: Decimal) -> Decimal:
    value = text(arguments, name)
    try:
        return Decimal(value) if value else default
    except InvalidOperation as error:
        raise SlackError(f"invalid_ts_{name}") from error


def _kind(channel: Channel) -> str:
    if channel.is_im:
        return "im"
    return "private_channel" if channel.is_private else "public_channel"


def _is_visible(channel: Channel) -> bool:
    return not channel.is_private or seed.BOT_USER_ID in channel.members
