"""chat.* and reactions.add: writing into channels and threads."""

import json

from demo.workspace import seed
from demo.workspace.arguments import flag, text
from demo.workspace.block_kit import message_problems, too_long
from demo.workspace.errors import SlackError
from demo.workspace.state import Channel, Ephemeral, Json, Message
from demo.workspace.world import World

# docs.slack.dev/reference/methods/chat.postMessage: longer text is cut; chat.update: longer text is refused.
LONGEST_POST = 40_000
LONGEST_UPDATE = 4_000
# Slack publishes no figure for metadata; this one is ours.
LARGEST_METADATA = 8_000


def post_message(world: World, arguments: Json) -> Json:
    channel = writable_channel(world, text(arguments, "channel"))
    blocks = checked_blocks(arguments)
    words = text(arguments, "text")[:LONGEST_POST]
    if not words.strip() and not blocks and not arguments.get("attachments"):
        raise SlackError("no_text")
    thread_ts = thread_of(channel, text(arguments, "thread_ts"))
    message = Message(channel.id, world.next_ts(), seed.BOT_USER_ID, [world.version(words, blocks)])
    message.thread_ts = thread_ts
    message.metadata = checked_metadata(arguments)
    message.unfurl_links = flag(arguments, "unfurl_links", True)
    message.unfurl_media = flag(arguments, "unfurl_media", True)
    channel.messages[message.ts] = message
    return {"channel": channel.id, "ts": message.ts, "message": as_slack(world, message)}


def update(world: World, arguments: Json) -> Json:
    """Text without `blocks` removes earlier blocks; neither of them keeps both, when metadata changes."""
    channel = visible_channel(world, text(arguments, "channel"))
    if channel.is_archived:
        # from memory of the list of errors on the page of chat.update; postMessage says is_archived. Expect either.
        raise SlackError("is_inactive")
    message = own_message(world, channel, text(arguments, "ts"), "cant_update_message")
    refuse_late_edit(world, message)
    if len(text(arguments, "text")) > LONGEST_UPDATE:
        raise SlackError("msg_too_long")
    words, blocks = text(arguments, "text"), checked_blocks(arguments)
    if not words and not blocks and arguments.get("metadata") is None:
        raise SlackError("no_text")
    if arguments.get("metadata") is not None:
        message.metadata = checked_metadata(arguments)
    if words or blocks:
        message.versions.append(world.version(words, blocks))
    return {
        "channel": channel.id,
        "ts": message.ts,
        "text": message.text,
        "message": as_slack(world, message),
    }


def delete(world: World, arguments: Json) -> Json:
    channel = visible_channel(world, text(arguments, "channel"))
    message = own_message(world, channel, text(arguments, "ts"), "cant_delete_message")
    message.deleted_at = world.now()
    return {"channel": channel.id, "ts": message.ts}


def post_ephemeral(world: World, arguments: Json) -> Json:
    channel = writable_channel(world, text(arguments, "channel"))
    user_id = text(arguments, "user")
    if user_id not in world.users:
        raise SlackError("user_not_found")
    if user_id not in channel.members:
        raise SlackError("user_not_in_channel")
    blocks = checked_blocks(arguments)
    words = text(arguments, "text")
    if not words.strip() and not blocks:
        raise SlackError("no_text")
    thread_ts = thread_of(channel, text(arguments, "thread_ts"))
    version = world.version(words, blocks)
    shown = Ephemeral(channel.id, user_id, world.next_ts(), "chat.postEphemeral", [version], thread_ts)
    return {"message_ts": world.show_ephemeral(shown).ts}


def get_permalink(world: World, arguments: Json) -> Json:
    channel = visible_channel(world, text(arguments, "channel"))
    message = shown_message(channel, text(arguments, "message_ts"))
    link = f"https://{world.team.domain}.slack.com/archives/{channel.id}/p{message.ts.replace('.', '')}"
    if message.is_reply:
        link += f"?thread_ts={message.thread_ts}&cid={channel.id}"
    return {"channel": channel.id, "permalink": link}


def add_reaction(world: World, arguments: Json) -> Json:
    channel = visible_channel(world, text(arguments, "channel"))
    message = shown_message(channel, text(arguments, "timestamp"))
    if not text(arguments, "name"):
        raise SlackError("invalid_name")
    people = message.reactions.setdefault(text(arguments, "name"), [])
    if seed.BOT_USER_ID in people:
        raise SlackError("already_reacted")
    people.append(seed.BOT_USER_ID)
    return {}


def visible_channel(world: World, channel_id: str) -> Channel:
    """By id; a private one that the app is not in does not exist for it. A user id means the direct message."""
    if channel_id in world.users:
        return world.direct_message(channel_id)
    channel = world.channels.get(channel_id)
    if channel is None or (channel.is_private and seed.BOT_USER_ID not in channel.members):
        raise SlackError("channel_not_found")
    return channel


def writable_channel(world: World, channel_id: str) -> Channel:
    channel = visible_channel(world, channel_id)
    if channel.is_archived:
        raise SlackError("is_archived")
    if seed.BOT_USER_ID not in channel.members:
        raise SlackError("not_in_channel")
    return channel


def shown_message(channel: Channel, ts: str) -> Message:
    message = channel.messages.get(ts)
    if message is None or message.deleted_at is not None:
        raise SlackError("message_not_found")
    return message


def own_message(world: World, channel: Channel, ts: str, refusal: str) -> Message:
    message = shown_message(channel, ts)
    if not message.by_app:
        raise SlackError(refusal)
    return message


def refuse_late_edit(world: World, message: Message) -> None:
    if world.edit_window is not None and world.now() - message.versions[0].at > world.edit_window:
        raise SlackError("edit_window_closed")


def thread_of(channel: Channel, thread_ts: str) -> str | None:
    """A reply to a reply joins the same thread."""
    if not thread_ts:
        return None
    parent = channel.messages.get(thread_ts)
    if parent is None:
        raise SlackError("thread_not_found")
    return parent.thread_ts or parent.ts


def checked_blocks(arguments: Json, limit_total: bool = True) -> list[Json]:
    blocks = arguments.get("blocks") or []
    if not isinstance(blocks, list):
        raise SlackError("invalid_blocks_format")
    problems = message_problems(blocks)
    if problems:
        raise SlackError("invalid_blocks", problems)
    if limit_total and too_long(blocks):
        raise SlackError("msg_blocks_too_long")
    return blocks


def checked_metadata(arguments: Json) -> Json | None:
    """An empty object removes metadata."""
    metadata = arguments.get("metadata")
    if not metadata:
        return None
    if not isinstance(metadata, dict):
        raise SlackError("invalid_metadata_format")
    if not isinstance(metadata.get("event_type"), str) or not isinstance(metadata.get("event_payload"), dict):
        raise SlackError("invalid_metadata_schema")
    if len(json.dumps(metadata)) > LARGEST_METADATA:
        raise SlackError("metadata_too_large")
    return metadata


def as_slack(world: World, message: Message, with_metadata: bool = False) -> Json:
    """The message as the API and the payloads show it."""
    body: Json = {"type": "message", "user": message.user_id, "ts": message.ts, "text": message.text}
    body["team"] = world.users[message.user_id].team_id
    if message.by_app:
        body |= {"bot_id": seed.BOT_ID, "app_id": seed.APP_ID}
    if message.blocks:
        body["blocks"] = message.blocks
    if message.edits and not message.blocks:
        body["edited"] = {"user": message.user_id, "ts": f"{message.versions[-1].at.timestamp():.6f}"}
    if with_metadata and message.metadata:
        body["metadata"] = message.metadata
    if message.files:
        body["files"] = [{"id": file_id, "name": world.files[file_id].name} for file_id in message.files]
    if message.reactions:
        body["reactions"] = [
            {"name": name, "users": users, "count": len(users)} for name, users in message.reactions.items()
        ]
    return body | _thread_fields(world, message)


def _thread_fields(world: World, message: Message) -> Json:
    if message.is_reply:
        return {"thread_ts": message.thread_ts}
    replies = world.channels[message.channel_id].replies(message)
    if not replies:
        return {}
    people = list(dict.fromkeys(reply.user_id for reply in replies))
    return {
        "thread_ts": message.ts,
        "reply_count": len(replies),
        "reply_users": people,
        "reply_users_count": len(people),
        "latest_reply": replies[-1].ts,
    }
