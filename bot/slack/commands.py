"""Slash commands: one function and one line in the table for each."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, tzinfo

import msgspec

from bot import clock
from bot.render import reply, why
from bot.render.candidates import candidates
from bot.render.message import Message
from bot.render.values import index_ranges
from bot.render.words import Mrkdwn, Words, code
from bot.slack.queries import Queries
from bot.slack.typed import gpus_named, moment, nearest, words_of

SHARE = "share"


class Answer(msgspec.Struct, frozen=True):
    """`shared`: for everybody in the channel, not for the caller's eyes only."""

    message: Message
    shared: bool = False


class Commands:
    """What was typed, and the answer to it. Never an exception for what a person typed."""

    def __init__(self, queries: Queries, words: Words, zone: tzinfo) -> None:
        self._queries = queries
        self._words = words
        self._zone = zone

    async def answer(self, name: str, text: str) -> Answer:
        typed = words_of(text)
        shared = SHARE in typed
        message, is_answer = await COMMANDS[name](self, [word for word in typed if word != SHARE])
        return Answer(message, shared and is_answer)

    # Each gives the message and whether it answers the question; what was not understood is never shared.

    async def candidates(self, typed: Sequence[str]) -> tuple[Message, bool]:
        nodes = self._queries.nodes()
        for word in typed:
            if word not in nodes:
                known = [*nodes, SHARE]
                return self._not_understood("gpu-candidates", "usage.unknown_word", word, nearest(word, known)), False
        asked = [node for node in nodes if node in typed] or nodes
        offered = await self._queries.offered(asked)
        return candidates(self._words, offered, asked, clock.now()), True

    async def why(self, typed: Sequence[str]) -> tuple[Message, bool]:
        if len(typed) < 2:
            return reply.usage(self._words, "gpu-why"), False
        node, gpu, *rest = typed
        nodes = self._queries.nodes()
        if node not in nodes:
            return self._not_understood("gpu-why", "usage.unknown_node", node, nearest(node, nodes)), False
        if gpu == "gpu" and rest:
            gpu, *rest = rest
        at = moment(" ".join(rest), clock.now(), self._zone) if rest and rest != ["now"] else None
        if wrong := self._wrong_time(" ".join(rest), at):
            return wrong, False
        return await self._why(node, gpu, at)

    async def _why(self, node: str, word: str, at: datetime | None) -> tuple[Message, bool]:
        indexes = await self._queries.gpus(node, at)
        found = gpus_named(word, indexes)
        if not found:
            ranges = Mrkdwn(f"GPU {index_ranges(indexes.values())}" if indexes else "-")
            wrong = self._words.say("usage.unknown_gpu", node=node, word=code(word, 60), indexes=ranges)
            return reply.not_understood(self._words, "gpu-why", wrong, None), False
        if len(found) > 1:
            wrong = self._words.say("usage.ambiguous_gpu", node=node, word=code(word, 60))
            return reply.not_understood(self._words, "gpu-why", wrong, None), False
        return why.why(self._words, await self._queries.why(node, found[0], at)), True

    async def help(self, typed: Sequence[str]) -> tuple[Message, bool]:
        return reply.help_of(self._words, [name.removeprefix("/") for name in COMMANDS]), True

    def _wrong_time(self, text: str, at: datetime | None) -> Message | None:
        if text in ("", "now"):
            return None
        if at is None:
            return self._not_understood("gpu-why", "usage.unknown_time", text, None)
        if at > clock.now():
            return self._not_understood("gpu-why", "usage.future_time", text, None)
        return None

    def _not_understood(self, command: str, key: str, word: str, close: str | None) -> Message:
        return reply.not_understood(self._words, command, self._words.say(key, word=code(word, 60)), close)


COMMANDS: dict[str, Callable[[Commands, Sequence[str]], Awaitable[tuple[Message, bool]]]] = {
    "/gpu-candidates": Commands.candidates,
    "/gpu-why": Commands.why,
    "/gpu-help": Commands.help,
}
