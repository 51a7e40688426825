"""People in the workspace: what they do, and what they then see."""

import re
from dataclasses import dataclass
from typing import Any

from demo.workspace import payloads, seed
from demo.workspace.block_kit import message_problems
from demo.workspace.elements import (
    Placed,
    filled_value,
    find_element,
    find_option,
    missing_inputs,
    placed_elements,
    state_values,
)
from demo.workspace.errors import SlackError
from demo.workspace.sockets import Sockets
from demo.workspace.state import Channel, Envelope, Ephemeral, Json, Message, User, View
from demo.workspace.views import checked_view, push_on_stack, replace
from demo.workspace.world import World

Target = Message | Ephemeral | View


class NotConfirmed(Exception):
    """The element asks before it acts; say `confirm=True` or `confirm=False`."""


@dataclass
class Seen:
    """What one action led to; `ephemerals` and `modal` are read anew each time, so `until` can wait for them.

    `failure` is what the person sees go wrong: `no_connection`, `timeout`, or why Slack did not accept the answer;
    `envelope` is None when nothing was sent (dialog dismissed, required input empty).
    """

    world: World
    user: User
    envelope: Envelope | None
    first_ephemeral: int
    failure: str | None = None

    @property
    def acked(self) -> bool:
        return self.envelope is not None and self.envelope.failure is None

    @property
    def answer(self) -> Json | None:
        """What came with the acknowledgement."""
        return self.envelope.answer if self.envelope else None

    @property
    def ephemerals(self) -> list[Ephemeral]:
        since = self.world.ephemerals[self.first_ephemeral :]
        return [one for one in since if one.user_id == self.user.id and one.deleted_at is None]

    @property
    def modal(self) -> View | None:
        return self.world.top_modal(self.user.id)


class Person:
    """One user at a client. Actions return as soon as they are acknowledged or have failed."""

    def __init__(self, world: World, sockets: Sockets, user: User, events: set[str]) -> None:
        self.user = user
        self._world = world
        self._sockets = sockets
        self._events = events
        self._filled: dict[str, payloads.Filled] = {}

    @property
    def modal(self) -> View | None:
        return self._world.top_modal(self.user.id)

    @property
    def home(self) -> View | None:
        return self._world.homes.get(self.user.id)

    @property
    def ephemerals(self) -> list[Ephemeral]:
        everything = self._world.ephemerals
        return [one for one in everything if one.user_id == self.user.id and one.deleted_at is None]

    async def command(self, name: str, words: str = "", channel: str = "gpu-oncall") -> Seen:
        """A slash command; `@alice` and `#channel` in it become mentions, as `should_escape` asks for."""
        place = self._own_channel(channel)
        payload = payloads.command(self._world, self.user, place, name, self._escaped(words))
        seen = self._start()
        seen.envelope = await self._sockets.send("slash_commands", payload, answerable=True)
        seen.failure = seen.envelope.failure or self._show_answer(place, seen.envelope.answer)
        return seen

    async def press(
        self,
        target: Target,
        button: str,
        *,
        confirm: bool | None = None,
        block_id: str | None = None,
        value: str | None = None,
        version: int = -1,
    ) -> Seen:
        """By action_id or by its words; `version=0` presses what an old screen still shows."""
        placed = find_element(self._blocks(target, version), button, block_id, value)
        return await self._act(target, placed, None, placed.element.get("confirm"), confirm, version)

    async def choose(
        self,
        target: Target,
        menu: str,
        option: Any,
        *,
        confirm: bool | None = None,
        block_id: str | None = None,
        version: int = -1,
    ) -> Seen:
        """An entry of an overflow menu or select by its words or value; for pickers the value itself."""
        placed = find_element(self._blocks(target, version), menu, block_id)
        if placed.element["type"] == "overflow":
            chosen = find_option(placed.element, str(option))
        else:
            chosen = filled_value(placed.element, option)
            self._keep(target, placed, chosen)
        return await self._act(target, placed, chosen, placed.element.get("confirm"), confirm, version)

    async def submit(self, values: dict[str, Any] | None = None, view: View | None = None) -> Seen:
        """Fills in the open modal by block_id or action_id and submits it."""
        view = self._modal_or(view)
        for name, value in (values or {}).items():
            self._fill(view, name, value)
        filled = self._filled.get(view.id, {})
        seen = self._start()
        view.errors = missing_inputs(view.blocks, state_values(view.blocks, filled))
        if view.errors:
            seen.failure = "inputs: " + ", ".join(f"{key} {problem}" for key, problem in view.errors.items())
            return seen
        trigger = self._world.new_trigger(self.user.id, view.id)
        payload = payloads.interaction("view_submission", self.user, trigger.id)
        payload["view"] = payloads.view_source(self._world, view, filled)["view"]
        payload["response_urls"] = []
        seen.envelope = await self._sockets.send("interactive", payload, answerable=True)
        seen.failure = seen.envelope.failure or self._take_view_answer(view, seen.envelope.answer or {})
        self._world.changed()
        return seen

    async def close_modal(self, view: View | None = None) -> Seen:
        """Cancel; the app hears of it when the view says `notify_on_close`."""
        view = self._modal_or(view)
        seen = self._start()
        stack = self._world.modals[self.user.id]
        is_cleared = bool(view.body.get("clear_on_close"))
        self._world.modals[self.user.id] = [] if is_cleared else stack[: stack.index(view)]
        if view.body.get("notify_on_close"):
            payload = payloads.interaction("view_closed", self.user, "")
            del payload["trigger_id"]
            payload["view"] = payloads.view_source(self._world, view, self._filled.get(view.id, {}))["view"]
            payload["is_cleared"] = is_cleared
            seen.envelope = await self._sockets.send("interactive", payload)
            seen.failure = seen.envelope.failure
        self._world.changed()
        return seen

    async def open_home(self) -> Seen:
        seen = self._start()
        place = self._world.direct_message(self.user.id)
        body: Json = {"type": "app_home_opened", "user": self.user.id, "channel": place.id, "tab": "home"}
        body["event_ts"] = self._world.next_ts()
        if self.home is not None:
            body["view"] = payloads.view_source(self._world, self.home, {})["view"]
        return await self._send_event(seen, "app_home_opened", body)

    async def shortcut(self, callback_id: str, message: Message) -> Seen:
        """A message shortcut, also in threads."""
        self._own_channel(message.channel_id)
        seen = self._start()
        payload = payloads.shortcut(self._world, self.user, callback_id, message)
        seen.envelope = await self._sockets.send("interactive", payload)
        seen.failure = seen.envelope.failure
        return seen

    async def say(self, words: str, channel: str = "gpu-oncall", thread: Message | None = None) -> Message:
        """Writes a message; the app hears of it when it subscribes to `message.channels` (groups, im)."""
        place = self._own_channel(channel)
        if place.is_archived:
            raise LookupError(f"{place.name} is archived: nobody can write there")
        message = Message(place.id, self._world.next_ts(), self.user.id, [self._world.version(words, [])], by_app=False)
        message.thread_ts = (thread.thread_ts or thread.ts) if thread else None
        place.messages[message.ts] = message
        self._world.changed()
        kind = "im" if place.is_im else "group" if place.is_private else "channel"
        name = "message.im" if kind == "im" else f"message.{kind}s"
        body: Json = {"type": "message", "channel": place.id, "channel_type": kind, "user": self.user.id}
        body |= {"text": words, "ts": message.ts, "event_ts": message.ts, "team": self.user.team_id}
        body |= {"thread_ts": message.thread_ts} if message.thread_ts else {}
        await self._send_event(self._start(), name, body)
        return message

    async def _act(
        self,
        target: Target,
        placed: Placed,
        chosen: Json | None,
        dialog: Json | None,
        confirm: bool | None,
        version: int,
    ) -> Seen:
        seen = self._start()
        if dialog is not None and confirm is None:
            raise NotConfirmed(f"{placed.action_id} asks: {dialog['title']['text']}")
        if dialog is not None and not confirm:
            return seen
        view_id = target.id if isinstance(target, View) else None
        payload = payloads.interaction("block_actions", self.user, self._world.new_trigger(self.user.id, view_id).id)
        filled = self._filled.get(_key(target), {})
        if isinstance(target, View):
            payload |= payloads.view_source(self._world, target, filled)
        else:
            blocks = target.versions[version].blocks
            payload |= payloads.message_source(self._world, self.user, target, blocks, filled)
        payload["actions"] = [payloads.action(self._world, placed, chosen)]
        seen.envelope = await self._sockets.send("interactive", payload)
        seen.failure = seen.envelope.failure
        return seen

    async def _send_event(self, seen: Seen, name: str, body: Json) -> Seen:
        """Not sent when the app does not subscribe to it."""
        if name in self._events:
            seen.envelope = await self._sockets.send_event(payloads.event(self._world, body))
            seen.failure = seen.envelope.failure
        return seen

    def _start(self) -> Seen:
        return Seen(self._world, self.user, None, len(self._world.ephemerals))

    def _own_channel(self, name: str) -> Channel:
        channel = self._world.channel(name)
        if self.user.id not in channel.members:
            raise LookupError(f"{self.user.name} is not in {channel.name}")
        return channel

    def _blocks(self, target: Target, version: int) -> list[Json]:
        if isinstance(target, View):
            return target.blocks
        if target.deleted_at is not None and version == -1:
            raise LookupError(f"the message {target.ts} is deleted: nobody can press it")
        if isinstance(target, Ephemeral) and target.user_id != self.user.id:
            raise LookupError(f"only {target.user_id} sees this message")
        self._own_channel(target.channel_id)
        return target.versions[version].blocks

    def _modal_or(self, view: View | None) -> View:
        view = view or self.modal
        if view is None or view not in self._world.modals.get(self.user.id, []):
            raise LookupError(f"{self.user.name} has no such modal open")
        return view

    def _fill(self, view: View, name: str, value: Any) -> None:
        for placed in placed_elements(view.blocks):
            if name in (placed.block_id, placed.action_id):
                self._keep(view, placed, filled_value(placed.element, value))
                return
        there = ", ".join(f"{placed.block_id}/{placed.action_id}" for placed in placed_elements(view.blocks))
        raise LookupError(f"{name}: no such input; there are: {there}")

    def _keep(self, target: Target, placed: Placed, value: Json) -> None:
        blocks = self._filled.setdefault(_key(target), {})
        blocks.setdefault(placed.block_id, {})[placed.action_id] = value

    def _show_answer(self, channel: Channel, answer: Json | None) -> str | None:
        """The text or blocks that came with the acknowledgement of a command; the problem when Slack refuses them."""
        if not answer or not (answer.get("text") or answer.get("blocks")):
            return None
        blocks = answer.get("blocks") or []
        if message_problems(blocks):
            return "invalid_command_response"
        version = self._world.version(str(answer.get("text") or ""), blocks)
        if answer.get("response_type") == "in_channel":
            ts = self._world.next_ts()
            channel.messages[ts] = Message(channel.id, ts, seed.BOT_USER_ID, [version])
            self._world.changed()
        else:
            ts = self._world.next_ts()
            self._world.show_ephemeral(Ephemeral(channel.id, self.user.id, ts, "command", [version]))
        return None

    def _take_view_answer(self, view: View, answer: Json) -> str | None:
        """What Slack does with the answer to a submission; the problem when it cannot."""
        stack = self._world.modals[self.user.id]
        what = answer.get("response_action")
        if what is None:
            self._world.modals[self.user.id] = stack[: stack.index(view)]
        elif what == "clear":
            self._world.modals[self.user.id] = []
        elif what == "errors":
            view.errors = dict(answer.get("errors") or {})
            inputs = {block["block_id"] for block in view.blocks if block["type"] == "input"}
            return None if view.errors and set(view.errors) <= inputs else "errors_for_unknown_blocks"
        elif what in ("update", "push"):
            return self._show_next(view, what, answer)
        else:
            return "unknown_response_action"
        return None

    def _show_next(self, view: View, what: str, answer: Json) -> str | None:
        try:
            body = checked_view(answer, ("modal",))
            if what == "push":
                push_on_stack(self._world, self.user.id, body)
            else:
                replace(self._world, view, body)
        except SlackError as error:
            return error.code
        return None

    def _escaped(self, words: str) -> str:
        words = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        people = {user.name: f"<@{user.id}|{user.name}>" for user in self._world.users.values()}
        places = {channel.name: f"<#{channel.id}|{channel.name}>" for channel in self._world.channels.values()}
        words = re.sub(r"@([\w-]+)", lambda found: people.get(found[1], found[0]), words)
        return re.sub(r"#([\w-]+)", lambda found: places.get(found[1], found[0]), words)


def _key(target: Target) -> str:
    return target.id if isinstance(target, View) else f"{target.channel_id}/{target.ts}"
