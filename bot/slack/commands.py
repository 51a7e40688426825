"""Commands, in Slack and at the terminal: one function and one line in the table for each."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, tzinfo

import msgspec

from bot import clock
from bot.act.desk import Wish
from bot.advance import Advance, Click, Clicked, Outcome
from bot.advance.obstacles import is_remediable
from bot.incident import Acknowledged, PeopleEvent, Snoozed, Unsnoozed
from bot.render import reply, status, why
from bot.render.candidates import candidates
from bot.render.card import ACKNOWLEDGE, SNOOZE, UNSNOOZE
from bot.render.message import Message
from bot.render.remedy_card import APPROVE, DENY, STOP
from bot.render.runner import why_runner
from bot.render.values import index_ranges, instant
from bot.render.words import Mrkdwn, Words, code
from bot.slack.claiming import Claiming
from bot.slack.outcomes import said
from bot.slack.queries import Queries
from bot.slack.remedying import Remedying
from bot.slack.typed import (
    LONGEST_SNOOZE,
    SHORTEST_SNOOZE,
    gpus_named,
    incident_number,
    moment,
    nearest,
    rest_of,
    snooze_end,
    words_of,
)
from wire.orders import Action

SHARE = "share"
MINE = "mine"
OFF = "off"
RESUME = "--resume"
MOST_DAYS = 400  # as long as hours are kept


class Answer(msgspec.Struct, frozen=True):
    """`shared`: for everybody in the channel, not for the caller's eyes only. `understood` False: usage follows."""

    message: Message
    shared: bool = False
    understood: bool = True


class Caller(msgspec.Struct, frozen=True):
    """Who types: Slack's ids, or `host:<user>` at the terminal. `trigger` opens a dialog, "" where there is none."""

    user: str
    team: str = ""
    trigger: str = ""


class Typed(msgspec.Struct, frozen=True):
    """What stands after the command: its words, and as it was typed."""

    words: Sequence[str]
    text: str
    caller: Caller


class Commands:
    """What was typed, and the answer to it. Never an exception for what a person typed."""

    def __init__(
        self,
        queries: Queries,
        advance: Advance,
        words: Words,
        zone: tzinfo,
        wake: Callable[[], None],
        claiming: Claiming,
        remedying: Remedying,
    ) -> None:
        self.claiming = claiming
        self.remedying = remedying
        self._queries = queries
        self._advance = advance
        self.words = self._words = words
        self._zone = zone
        self._wake = wake

    async def answer(self, name: str, text: str, caller: Caller) -> Answer:
        """`name` is one of the tables below."""
        command = COMMANDS.get(name) or TERMINAL_ONLY[name]
        words = words_of(text)
        shared = SHARE in words and command.may_share
        kept = [word for word in words if not (shared and word == SHARE)]
        message, is_answer = await command.answer(self, Typed(kept, text, caller))
        return Answer(message, shared and is_answer, is_answer)

    # Each gives the message and whether it answers the question; what was not understood is never shared.

    async def candidates(self, typed: Typed) -> tuple[Message, bool]:
        nodes = self._queries.nodes()
        if wrong := self._unknown_node("gpu-candidates", typed.words, [*nodes, SHARE]):
            return wrong, False
        asked = [node for node in nodes if node in typed.words] or nodes
        offered = await self._queries.offered(asked)
        return candidates(self._words, offered, asked, clock.now()), True

    async def status(self, typed: Typed) -> tuple[Message, bool]:
        nodes = self._queries.nodes()
        if wrong := self._unknown_node("gpu-status", typed.words, [*nodes, SHARE]):
            return wrong, False
        asked = [node for node in nodes if node in typed.words] or nodes
        found = await self._queries.statuses(asked)
        draw = status.one_node if typed.words and len(found) == 1 else status.fleet
        return draw(self._words, found, self._queries.of_no_node(), clock.now()), True

    async def incidents(self, typed: Typed) -> tuple[Message, bool]:
        first = typed.words[0] if typed.words else ""
        if len(typed.words) > 1 or (first not in ("", MINE) and incident_number(first) is None):
            wrong = first if incident_number(first) is None and first != MINE else typed.words[1]
            close = nearest(wrong, [MINE])
            return self._not_understood("gpu-incidents", "usage.unknown_word", wrong, close), False
        if number := incident_number(first):
            return await self._one_incident(number)
        found = self._queries.open_incidents()
        if first == MINE:
            found = [one for one in found if typed.caller.user in (one.acknowledged_by, *one.mentions)]
        titles = [(one, await self._queries.title(one)) for one in found[: status.MOST_INCIDENTS]]
        return status.incidents(self._words, titles, len(found), clock.now(), is_mine=first == MINE), True

    async def _one_incident(self, number: int) -> tuple[Message, bool]:
        found = await self._queries.incident(number)
        if found is None:
            return self._no_incident("gpu-incidents", number), False
        return status.one_incident(
            self._words, await self._queries.card(found), await self._queries.history(found)
        ), True

    async def why(self, typed: Typed) -> tuple[Message, bool]:
        if len(typed.words) < 2:
            return reply.usage(self._words, "gpu-why"), False
        node, gpu, *rest = typed.words
        nodes = self._queries.nodes()
        if node not in nodes:
            return self._not_understood("gpu-why", "usage.unknown_node", node, nearest(node, nodes)), False
        if gpu in ("gpu", "runner") and rest:
            gpu, *rest = rest
        at = moment(" ".join(rest), clock.now(), self._zone) if rest and rest != ["now"] else None
        if wrong := self._wrong_time(" ".join(rest), at):
            return wrong, False
        return await self._why(node, gpu, at)

    async def _why(self, node: str, word: str, at: datetime | None) -> tuple[Message, bool]:
        indexes = await self._queries.gpus(node, at)
        found = gpus_named(word, indexes)
        if not found and word in await self._queries.runners(node, at):
            return why_runner(self._words, await self._queries.why_runner(node, word, at)), True
        if not found:
            ranges = Mrkdwn(f"GPU {index_ranges(indexes.values())}" if indexes else "-")
            wrong = self._words.say("usage.unknown_gpu", node=node, word=code(word, 60), indexes=ranges)
            return reply.not_understood(self._words, "gpu-why", wrong, None), False
        if len(found) > 1:
            wrong = self._words.say("usage.ambiguous_gpu", node=node, word=code(word, 60))
            return reply.not_understood(self._words, "gpu-why", wrong, None), False
        return why.why(self._words, await self._queries.why(node, found[0], at)), True

    async def report(self, typed: Typed) -> tuple[Message, bool]:
        """`7`, `7d`, or nothing for a week."""
        word = typed.words[0].removesuffix("d") if typed.words else "7"
        is_number = word.isascii() and word.isdigit() and len(word) < 4
        if len(typed.words) > 1 or not is_number or not 1 <= int(word) <= MOST_DAYS:
            wrong = typed.words[-1]
            return self._not_understood("gpu-report", "usage.unknown_days", wrong, nearest(wrong, [SHARE])), False
        return await self._queries.report(int(word)), True

    async def help(self, typed: Typed) -> tuple[Message, bool]:
        return reply.help_of(self._words, [name.removeprefix("/") for name in COMMANDS]), True

    # --- decisions --------------------------------------------------------------------------------------------------

    async def snooze(self, typed: Typed) -> tuple[Message, bool]:
        if len(typed.words) < 2:
            return reply.usage(self._words, "gpu-snooze"), False
        target, length = typed.words[:2]
        skip = 2
        if length == "for" and len(typed.words) > 2:
            length, skip = typed.words[2], 3
        number, nodes = incident_number(target), self._queries.nodes()
        if number is None and target not in nodes:
            return self._not_understood("gpu-snooze", "usage.unknown_target", target, nearest(target, nodes)), False
        now = clock.now()
        until = None if length == OFF else snooze_end(length, now, self._zone)
        if length != OFF and (wrong := self._wrong_length(length, until, now)):
            return wrong, False
        reason = rest_of(typed.text, skip)
        if number is not None:
            event = Snoozed(typed.caller.user, until, reason) if until else Unsnoozed(typed.caller.user)
            return await self._decide("gpu-snooze", number, typed.caller, event, until)
        return await self._snooze_node(target, typed.caller, until, reason), True

    async def _snooze_node(self, node: str, caller: Caller, until: datetime | None, reason: str) -> Message:
        click = Click("", SNOOZE if until else UNSNOOZE, caller.user, caller.team)
        if until is None:
            was_snoozed = await self._advance.unsnooze_node(node, click)
            key = "reply.node_unsnoozed" if was_snoozed else "reply.node_not_snoozed"
            return reply.reply(self._words, key, node=node)
        snooze = await self._advance.snooze_node(node, until, click, reason)
        self._wake()
        return reply.reply(self._words, "reply.node_snoozed", node=node, until=instant(snooze.until))

    async def acknowledge(self, typed: Typed) -> tuple[Message, bool]:
        number = incident_number(typed.words[0]) if len(typed.words) == 1 else None
        if number is None:
            return reply.usage(self._words, "gpu-ack"), False
        return await self._decide("gpu-ack", number, typed.caller, Acknowledged(typed.caller.user), None)

    async def reboot(self, typed: Typed) -> tuple[Message, bool]:
        """Where a runner of the node is stalled, the node asks once more whether it still is; else the card says that
        there is no evidence."""
        nodes = self._queries.nodes()
        if len(typed.words) != 1:
            return reply.usage(self._words, "gpu-reboot"), False
        node = typed.words[0]
        if node not in nodes:
            return self._not_understood("gpu-reboot", "usage.unknown_node", node, nearest(node, nodes)), False
        stall = next((one for one in self._queries.open_incidents() if one.node == node and is_remediable(one)), None)
        wish = Wish(Action.REBOOT_NODE, node, stall.runner, stall.id) if stall else Wish(Action.REBOOT_NODE, node)
        refused = await self.remedying.open(wish, typed.caller.user, typed.caller.trigger)
        return (refused, False) if refused else (reply.reply(self._words, "reply.remedy_dialog"), True)

    async def approve(self, typed: Typed) -> tuple[Message, bool]:
        return await self._decide_remedy("gpu-approve", APPROVE, typed)

    async def deny(self, typed: Typed) -> tuple[Message, bool]:
        """A request that waits for an approval, or a policy's countdown."""
        number = incident_number(typed.words[0]) if typed.words else None
        found = await self._queries.incident(number) if number else None
        is_of_policy = found is not None and found.remedy is not None and bool(found.remedy.policy)
        return await self._decide_remedy("gpu-deny", STOP if is_of_policy else DENY, typed)

    async def _decide_remedy(self, command: str, action: str, typed: Typed) -> tuple[Message, bool]:
        number = incident_number(typed.words[0]) if typed.words else None
        if number is None:
            return reply.usage(self._words, command), False
        reason = rest_of(typed.text, 1)
        return await self.remedying.by_number(action, number, typed.caller.user, reason)

    async def stop_remedies(self, typed: Typed) -> tuple[Message, bool]:
        if typed.words == [RESUME]:
            return await self.remedying.resume(typed.caller.user), True
        return await self.remedying.stop_all(typed.caller.user, typed.text.strip()), True

    async def _decide(
        self, command: str, number: int, caller: Caller, event: PeopleEvent, until: datetime | None
    ) -> tuple[Message, bool]:
        action = _ACTIONS[type(event)]
        clicked = await self._advance.command(number, Click("", action, caller.user, caller.team), event)
        self._wake()
        if clicked.incident is None:
            return self._no_incident(command, number), False
        return self.outcome(action, caller.user, clicked, until), clicked.outcome in (Outcome.DONE, Outcome.ALREADY)

    def outcome(self, action: str, user: str, clicked: Clicked, until: datetime | None) -> Message:
        return said(self._words, action, user, clicked, until)

    async def acknowledge_incident(self, number: int, caller: Caller) -> Message:
        """For whoever points at a card, in place of typing its number."""
        return (await self._decide("gpu-ack", number, caller, Acknowledged(caller.user), None))[0]

    async def claim(self, typed: Typed) -> tuple[Message, bool]:
        click = Click("", "claim", typed.caller.user, typed.caller.team)
        return await self.claiming.claim(typed.words, typed.text, click)

    async def release(self, typed: Typed) -> tuple[Message, bool]:
        click = Click("", "release", typed.caller.user, typed.caller.team)
        return await self.claiming.release(typed.words, click)

    # --- what was not understood ------------------------------------------------------------------------------------

    def _unknown_node(self, command: str, typed: Sequence[str], known: Sequence[str]) -> Message | None:
        unknown = [word for word in typed if word not in known]
        if not unknown:
            return None
        return self._not_understood(command, "usage.unknown_word", unknown[0], nearest(unknown[0], known))

    def _wrong_time(self, text: str, at: datetime | None) -> Message | None:
        if text in ("", "now"):
            return None
        if at is None:
            return self._not_understood("gpu-why", "usage.unknown_time", text, None)
        if at > clock.now():
            return self._not_understood("gpu-why", "usage.future_time", text, None)
        return None

    def _wrong_length(self, word: str, until: datetime | None, now: datetime) -> Message | None:
        if until is None:
            return self._not_understood("gpu-snooze", "usage.unknown_length", word, nearest(word, [OFF]))
        if not SHORTEST_SNOOZE <= until - now <= LONGEST_SNOOZE:
            return self._not_understood("gpu-snooze", "usage.length_bounds", word, None)
        return None

    def _no_incident(self, command: str, number: int) -> Message:
        return self._not_understood(command, "usage.unknown_incident", str(number), None)

    def _not_understood(self, command: str, key: str, word: str, close: str | None) -> Message:
        return reply.not_understood(self._words, command, self._words.say(key, word=code(word, 60)), close)


_ACTIONS: Mapping[type[PeopleEvent], str] = {Acknowledged: ACKNOWLEDGE, Snoozed: SNOOZE, Unsnoozed: UNSNOOZE}


class Command(msgspec.Struct, frozen=True):
    """`usage` is the hint that Slack shows while somebody types."""

    answer: Callable[[Commands, Typed], Awaitable[tuple[Message, bool]]]
    usage: str = ""
    may_share: bool = True


COMMANDS: Mapping[str, Command] = {
    "/gpu-candidates": Command(Commands.candidates, "[node] [share]"),
    "/gpu-status": Command(Commands.status, "[node] [share]"),
    "/gpu-why": Command(Commands.why, "node gpu|runner [time] [share]"),
    "/gpu-incidents": Command(Commands.incidents, "[mine|id] [share]"),
    "/gpu-report": Command(Commands.report, "[days] [share]"),
    "/gpu-snooze": Command(Commands.snooze, "id|node duration [reason]", may_share=False),
    "/gpu-claim": Command(Commands.claim, "node gpu|all duration [reason]", may_share=False),
    "/gpu-release": Command(Commands.release, "node gpu|all", may_share=False),
    "/gpu-reboot": Command(Commands.reboot, "node", may_share=False),
    "/gpu-help": Command(Commands.help),
}
# In Slack these are the buttons of cards and the message shortcut; who stops all remedies sits at the bot's host.
TERMINAL_ONLY: Mapping[str, Command] = {
    "/gpu-ack": Command(Commands.acknowledge, "id", may_share=False),
    "/gpu-approve": Command(Commands.approve, "id", may_share=False),
    "/gpu-deny": Command(Commands.deny, "id [reason]", may_share=False),
    "/gpu-stop-remedies": Command(Commands.stop_remedies, "[reason]", may_share=False),
}
