"""What the page asks for, as values; and how a person in the workspace does it."""

from typing import Any

import msgspec

from demo.workspace import Message, NotConfirmed, Person, Seen, View, Workspace
from demo.workspace.elements import TEXT_INPUTS
from demo.workspace.people import Target

FAILURES = {
    "no_connection": "The app is not connected, so nobody heard this.",
    "timeout": "The app did not answer within 3 s.",
}


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an element stands: a view, or a message as version `version` of it was drawn."""

    view: str = ""
    channel: str = ""
    ts: str = ""
    version: int = -1


class Press(msgspec.Struct, frozen=True, tag="press", tag_field="deed"):
    place: Place
    block_id: str
    action_id: str
    confirm: bool | None = None


class Choose(msgspec.Struct, frozen=True, tag="choose", tag_field="deed"):
    """`value`: of an option, a list of them, or what a picker holds."""

    place: Place
    block_id: str
    action_id: str
    value: Any
    confirm: bool | None = None


class Submit(msgspec.Struct, frozen=True, tag="submit", tag_field="deed"):
    """`values` by block_id."""

    view: str
    values: dict[str, Any]


class Close(msgspec.Struct, frozen=True, tag="close", tag_field="deed"):
    view: str


class Command(msgspec.Struct, frozen=True, tag="command", tag_field="deed"):
    channel: str
    name: str
    words: str = ""


class Say(msgspec.Struct, frozen=True, tag="say", tag_field="deed"):
    """`thread_ts` "": into the channel itself."""

    channel: str
    words: str
    thread_ts: str = ""


class Shortcut(msgspec.Struct, frozen=True, tag="shortcut", tag_field="deed"):
    callback_id: str
    channel: str
    ts: str


class OpenHome(msgspec.Struct, frozen=True, tag="home", tag_field="deed"):
    pass


Deed = Press | Choose | Submit | Close | Command | Say | Shortcut | OpenHome


async def carry_out(workspace: Workspace, person: Person, deed: Deed) -> str | None:
    """None when it went well; else a sentence for the person. Never raises for what the page sent."""
    try:
        seen = await _done(workspace, person, deed)
    except NotConfirmed as error:
        return f"This asks first: {error}"
    except LookupError as error:
        return f"Nothing was sent: {error.args[0]}"
    if seen is None or seen.failure is None or seen.failure.startswith("inputs: "):  # shown beside the inputs
        return None
    return FAILURES.get(seen.failure, f"The app's answer could not be shown: {seen.failure}")


async def _done(workspace: Workspace, person: Person, deed: Deed) -> Seen | None:
    match deed:
        case Press(place, block_id, action_id, confirm):
            target = _target(workspace, person, place)
            return await person.press(
                target, action_id, confirm=confirm, block_id=block_id, version=_version(place, target)
            )
        case Choose(place, block_id, action_id, value, confirm):
            target = _target(workspace, person, place)
            version = _version(place, target)
            return await person.choose(target, action_id, value, confirm=confirm, block_id=block_id, version=version)
        case Submit(view, values):
            shown = _modal(person, view)
            return await person.submit({name: _filled(shown, name, value) for name, value in values.items()}, shown)
        case Close(view):
            return await person.close_modal(_modal(person, view))
        case Command(channel, name, words):
            return await person.command(name, words, channel)
        case Say(channel, words, thread_ts):
            thread = _message(workspace, channel, thread_ts) if thread_ts else None
            await person.say(words, channel, thread)
            return None
        case Shortcut(callback_id, channel, ts):
            return await person.shortcut(callback_id, _message(workspace, channel, ts))
        case OpenHome():
            return await person.open_home()


def _target(workspace: Workspace, person: Person, place: Place) -> Target:
    if place.view:
        return person.home if person.home and person.home.id == place.view else _modal(person, place.view)
    for ephemeral in person.ephemerals:
        if (ephemeral.channel_id, ephemeral.ts) == (place.channel, place.ts):
            return ephemeral
    return _message(workspace, place.channel, place.ts)


def _version(place: Place, target: Target) -> int:
    """Which drawing was pressed; a number that there is not means the newest."""
    return place.version if 0 <= place.version < len(target.versions) else -1


def _message(workspace: Workspace, channel: str, ts: str) -> Message:
    message = workspace.channel(channel).messages.get(ts)
    if message is None:
        raise LookupError("this message is not there")
    return message


def _modal(person: Person, view_id: str) -> View:
    if person.modal is None or person.modal.id != view_id:
        raise LookupError("this dialog is not open any more")
    return person.modal


def _filled(view: View, block_id: str, value: Any) -> Any:
    """Slack sends null for an input that is empty."""
    kinds = [block["element"]["type"] for block in view.blocks if block["block_id"] == block_id and "element" in block]
    return None if value == "" and kinds and kinds[0] in (*TEXT_INPUTS, "datepicker", "timepicker") else value
