"""response_url: five answers within thirty minutes, by default for one person's eyes."""

from datetime import timedelta

from demo.workspace import seed
from demo.workspace.arguments import flag, text
from demo.workspace.errors import SlackError
from demo.workspace.messages import checked_blocks, refuse_late_edit, thread_of
from demo.workspace.state import Ephemeral, Json, Message, ResponseUrl, Version
from demo.workspace.world import World

# docs.slack.dev/interactivity/handling-user-interaction
MOST_USES = 5
LIFETIME = timedelta(minutes=30)


def respond(world: World, token: str, body: Json) -> None:
    """Raises SlackError used_url, expired_url, or whatever a post would be refused for."""
    url = world.response_urls.get(token)
    if url is None or world.now() - url.issued_at > LIFETIME:
        raise SlackError("expired_url")
    if url.uses >= MOST_USES:
        raise SlackError("used_url")
    _apply(world, url, body)
    url.uses += 1


def _apply(world: World, url: ResponseUrl, body: Json) -> None:
    source = url.message or url.ephemeral
    if flag(body, "delete_original"):
        _delete(world, source)
        return
    blocks = checked_blocks(body, limit_total=False)
    if not text(body, "text").strip() and not blocks:
        raise SlackError("no_text")
    version = world.version(text(body, "text"), blocks)
    if flag(body, "replace_original") and source is not None:
        _replace(world, source, version)
    else:
        _post(world, url, body, version)


def _delete(world: World, source: Message | Ephemeral | None) -> None:
    if source is None:
        raise SlackError("no_original")
    source.deleted_at = world.now()


def _replace(world: World, source: Message | Ephemeral, version: Version) -> None:
    if source.deleted_at is not None:
        raise SlackError("message_not_found")
    if isinstance(source, Message):
        refuse_late_edit(world, source)
    source.versions.append(version)


def _post(world: World, url: ResponseUrl, body: Json, version: Version) -> None:
    """In-channel answers need the channel to be open; threads only in channel (docs as above)."""
    channel = world.channels[url.channel_id]
    if body.get("response_type") == "in_channel":
        if channel.is_archived:
            raise SlackError("is_archived")
        message = Message(channel.id, world.next_ts(), seed.BOT_USER_ID, [version])
        message.thread_ts = thread_of(channel, text(body, "thread_ts"))
        channel.messages[message.ts] = message
        return
    world.show_ephemeral(Ephemeral(channel.id, url.user_id, world.next_ts(), "response_url", [version]))
