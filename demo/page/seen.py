"""What one person sees in the workspace, as JSON for the page. Pure."""

from collections.abc import Mapping
from typing import Any

from demo.workspace import Channel, Ephemeral, File, Message, Person, View, Workspace
from demo.workspace.state import Json, User

MOST_MESSAGES = 200  # of one channel: the page is for looking at, not for reading an archive
PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def seen_by(workspace: Workspace, person: Person) -> Json:
    """Channels, messages and views as `person` sees them now; nothing that only others see."""
    user = person.user
    channels = [one for one in workspace.channels.values() if user.id in one.members]
    return {
        "me": _user(user),
        "people": [_user(one) for one in workspace.users.values() if not one.is_bot],
        "names": workspace.names,
        "sockets": workspace.sockets.count,
        "channels": [_channel(workspace, one) for one in channels],
        "ephemerals": [_ephemeral(workspace, one) for one in person.ephemerals[-MOST_MESSAGES:]],
        "modal": _view(person.modal) if person.modal else None,
        "home": _view(person.home) if person.home else None,
    }


def picture_type(content: bytes) -> str | None:
    """By its first bytes, never by its name; None: not a picture that the page shows."""
    return next((kind for start, kind in PICTURES.items() if content.startswith(start)), None)


def _user(user: User) -> Json:
    note = "guest" if user.is_restricted else "another team" if user.is_stranger else ""
    return {"id": user.id, "name": user.name, "real_name": user.real_name, "tz": user.tz, "note": note}


def _channel(workspace: Workspace, channel: Channel) -> Json:
    shown = channel.shown[-MOST_MESSAGES:]
    return {
        "id": channel.id,
        "name": "gpu-oncall" if channel.is_im else channel.name,
        "is_im": channel.is_im,
        "is_private": channel.is_private,
        "is_archived": channel.is_archived,
        "left_out": len(channel.shown) - len(shown),
        "messages": [_message(workspace, one) for one in shown],
    }


def _message(workspace: Workspace, message: Message) -> Json:
    user = workspace.users[message.user_id]
    return _said(message) | {
        "by": {"name": user.real_name, "is_app": message.by_app},
        "reactions": {name: len(people) for name, people in message.reactions.items()},
        "files": [_file(workspace.files[one]) for one in message.files],
    }


def _ephemeral(workspace: Workspace, ephemeral: Ephemeral) -> Json:
    return _said(ephemeral) | {"by": {"name": "gpu-oncall", "is_app": True}, "only_me": True}


def _said(message: Message | Ephemeral) -> Json:
    last = message.versions[-1]
    return {
        "channel": message.channel_id,
        "ts": message.ts,
        "thread_ts": message.thread_ts,
        "version": len(message.versions) - 1,
        "text": last.text,
        "blocks": last.blocks,
    }


def _file(file: File) -> Json:
    is_picture = picture_type(file.content or b"") is not None
    return {"id": file.id, "name": file.name, "title": file.title, "alt_text": file.alt_text, "is_picture": is_picture}


def _view(view: View) -> Json:
    body: Mapping[str, Any] = view.body
    parts = {name: (body.get(name) or {}).get("text") for name in ("title", "submit", "close")}
    return parts | {"id": view.id, "hash": view.hash, "blocks": view.blocks, "errors": view.errors}
