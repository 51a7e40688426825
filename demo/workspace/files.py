"""files.getUploadURLExternal, the upload itself, files.completeUploadExternal."""

from demo.workspace import seed
from demo.workspace.arguments import text, whole
from demo.workspace.errors import SlackError
from demo.workspace.messages import thread_of, writable_channel
from demo.workspace.state import File, Json, Message
from demo.workspace.world import World

# 1 GB, the limit that slack_sdk checks too
LARGEST_FILE = 1024**3


def get_upload_url(world: World, arguments: Json) -> Json:
    """The address is relative here; the server puts itself in front."""
    name, length = text(arguments, "filename"), whole(arguments, "length", 0)
    if not name:
        raise SlackError("invalid_arguments", ["missing required field: filename [json-pointer:/filename]"])
    if length < 1:
        raise SlackError("invalid_arguments", ["must be greater than 0 [json-pointer:/length]"])
    if length > LARGEST_FILE:
        raise SlackError("file_upload_size_restricted")
    file = File(world.new_id("F"), name, length, text(arguments, "alt_txt"))
    world.files[file.id] = file
    return {"file_id": file.id, "upload_url": f"/upload/v1/{file.id}"}


def complete_upload(world: World, arguments: Json) -> Json:
    """Without a channel the file stays private to the app."""
    files = [_uploaded(world, entry) for entry in arguments.get("files") or []]
    if not files:
        raise SlackError("invalid_arguments", ["no files given [json-pointer:/files]"])
    targets = text(arguments, "channel_id") or text(arguments, "channels")
    for channel_id in filter(None, targets.split(",")):
        _share(world, files, channel_id, arguments)
    return {"files": [{"id": file.id, "title": file.title, "name": file.name} for file in files]}


def _uploaded(world: World, entry: Json) -> File:
    file = world.files.get(str(entry.get("id")))
    if file is None or file.content is None:
        raise SlackError("file_not_found")
    file.title = str(entry.get("title") or file.name)
    return file


def _share(world: World, files: list[File], channel_id: str, arguments: Json) -> None:
    channel = writable_channel(world, channel_id)
    thread_ts = thread_of(channel, text(arguments, "thread_ts"))
    version = world.version(text(arguments, "initial_comment"), [])
    message = Message(channel.id, world.next_ts(), seed.BOT_USER_ID, [version], thread_ts=thread_ts)
    message.files = [file.id for file in files]
    channel.messages[message.ts] = message
    for file in files:
        file.channels.append(channel.id)
        file.thread_ts = thread_ts
