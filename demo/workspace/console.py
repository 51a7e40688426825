"""A person at the keyboard: one line is one action of somebody in the workspace, and what changed is printed."""

import shlex
from collections.abc import Awaitable, Callable, Iterator

from demo.workspace.elements import find_element
from demo.workspace.people import NotConfirmed, Person, Seen, Target
from demo.workspace.server import Workspace
from demo.workspace.state import Message
from demo.workspace.transcript import ephemeral_transcript, message_transcript, view_transcript

HELP = """WHO /command words      alice /gpu-status gpu-07
WHO press WORDS         alice press Acknowledge      (press! answers yes to the confirm dialog)
WHO choose MENU OPTION  alice choose more Why        (choose! as above)
WHO submit NAME=VALUE…  alice submit reason="stuck driver"
WHO close | home | say WORDS
show CHANNEL | help"""


async def obey(workspace: Workspace, line: str) -> str:
    """The answer to one line, for the person who typed it; never raises for what was typed."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        return f"not understood: {error}"
    if len(words) < 2:
        return HELP
    try:
        if words[0] == "show":
            return workspace.transcript(words[1])
        return await _act(workspace, workspace.person(words[0]), words[1], words[2:])
    except (LookupError, NotConfirmed) as error:
        return str(error.args[0])


async def _act(workspace: Workspace, person: Person, verb: str, rest: list[str]) -> str:
    if verb.startswith("/"):
        return _told(await person.command(verb, " ".join(rest)))
    if verb == "say":
        await person.say(" ".join(rest))
        return ""
    action = ACTIONS.get(verb.removesuffix("!"))
    if action is None:
        return HELP
    return _told(await action(workspace, person, rest, verb.endswith("!") or None))


Action = Callable[[Workspace, Person, list[str], bool | None], Awaitable[Seen]]


async def _press(workspace: Workspace, person: Person, words: list[str], confirm: bool | None) -> Seen:
    name = " ".join(words)
    return await person.press(_target(workspace, person, name), name, confirm=confirm)


async def _choose(workspace: Workspace, person: Person, words: list[str], confirm: bool | None) -> Seen:
    menu, option = (words or [""])[0], " ".join(words[1:])
    return await person.choose(_target(workspace, person, menu), menu, option, confirm=confirm)


async def _submit(workspace: Workspace, person: Person, words: list[str], confirm: bool | None) -> Seen:
    return await person.submit(dict(word.split("=", 1) for word in words if "=" in word))


async def _close(workspace: Workspace, person: Person, words: list[str], confirm: bool | None) -> Seen:
    return await person.close_modal()


async def _home(workspace: Workspace, person: Person, words: list[str], confirm: bool | None) -> Seen:
    return await person.open_home()


ACTIONS: dict[str, Action] = {
    "press": _press,
    "choose": _choose,
    "submit": _submit,
    "close": _close,
    "home": _home,
}


def _told(seen: Seen) -> str:
    return f"failed: {seen.failure}" if seen.failure else "ok" if seen.acked else "nothing was sent"


def _target(workspace: Workspace, person: Person, name: str) -> Target:
    """What the person most likely means: the open modal, else the newest thing with such an element, else the home."""
    for candidate in _candidates(workspace, person):
        try:
            find_element(candidate.blocks, name)
        except LookupError:
            continue
        return candidate
    raise LookupError(f"{name}: nothing that {person.user.name} sees has this")


def _candidates(workspace: Workspace, person: Person) -> Iterator[Target]:
    if person.modal is not None:
        yield person.modal
    yield from reversed(person.ephemerals)
    mine = [channel for channel in workspace.channels.values() if person.user.id in channel.members]
    shown: list[Message] = [message for channel in mine for message in channel.shown]
    yield from sorted(shown, key=lambda message: message.ts, reverse=True)
    if person.home is not None:
        yield person.home


class News:
    """What has changed since the last look, as plain text."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._told: dict[str, int] = {}

    def take(self) -> list[str]:
        names = self._workspace.names
        parts = []
        for channel in self._workspace.channels.values():
            for message in channel.shown:
                if self._is_new(channel.id + message.ts, len(message.versions)):
                    parts.append(f"{names[channel.id]} " + message_transcript(message, [], names))
        for ephemeral in self._workspace.ephemerals:
            if self._is_new(ephemeral.user_id + ephemeral.ts, len(ephemeral.versions)):
                parts.append(ephemeral_transcript(ephemeral, names))
        for view in self._workspace.views.values():
            if self._is_new(view.id, len(view.versions)):
                parts.append(f"{names[view.user_id]} " + view_transcript(view, names))
        return parts

    def _is_new(self, key: str, version: int) -> bool:
        is_new = self._told.get(key) != version
        self._told[key] = version
        return is_new
