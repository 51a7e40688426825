"""`/gpu-claim` and `/gpu-release`, and the buttons of the question: what was asked, and the answer to it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, tzinfo

from bot import clock
from bot.advance import Click
from bot.claims import Claim
from bot.render import reply
from bot.render.claims import claim_lines
from bot.render.message import Message
from bot.render.values import index_ranges, instant
from bot.render.words import Mrkdwn, Words, code
from bot.slack.claims import Answered, Claims, Pressed, Taken, Wanted
from bot.slack.queries import Queries
from bot.slack.typed import LONGEST_SNOOZE, SHORTEST_SNOOZE, gpus_named, nearest, rest_of, snooze_end

ALL = "all"
CLAIM, RELEASE = "gpu-claim", "gpu-release"
_FILLERS = ("gpu", "for")
Answer = tuple[Message, bool]
Approves = Callable[[str, str], Awaitable[bool]]


class Claiming:
    """Every method gives the message, and whether it answers what was asked. `approves` says who may end any claim."""

    def __init__(self, claims: Claims, queries: Queries, words: Words, zone: tzinfo, approves: Approves) -> None:
        self.claims = claims
        self._queries = queries
        self._words = words
        self._zone = zone
        self._approves = approves

    async def claim(self, words: Sequence[str], text: str, click: Click) -> Answer:
        """`words` are those of `text`, in lower case."""
        kept = [word for word in words if word not in _FILLERS]
        if len(kept) < 3:
            return reply.usage(self._words, CLAIM), False
        node, gpu, length = kept[:3]
        gpus = await self._gpus(CLAIM, node, gpu)
        if isinstance(gpus, Message):
            return gpus, False
        until = self._until(length)
        if isinstance(until, Message):
            return until, False
        return await self.take(Wanted(node, gpus, until, rest_of(text, words.index(length) + 1)), click)

    async def take(self, wanted: Wanted, click: Click) -> Answer:
        """The same for what was chosen in a dialog."""
        taken = await self.claims.claim(wanted, click)
        if taken.in_the_way:
            lines = claim_lines(self._words, taken.in_the_way)
            return reply.lines(self._words, [self._words.say("reply.claim_taken"), *lines]), False
        return reply.lines(self._words, await self._said(wanted, taken)), True

    async def _said(self, wanted: Wanted, taken: Taken) -> list[Mrkdwn]:
        key = "reply.claim_moved" if taken.moved else "reply.claimed"
        indexes = Mrkdwn(index_ranges(wanted.gpus.values()))
        said = [self._words.say(key, node=wanted.node, indexes=indexes, until=instant(wanted.until))]
        busy = await self._queries.in_use(wanted.node, wanted.gpus)
        if busy:
            first, shown = min(busy), Mrkdwn(index_ranges(busy))
            said.append(self._words.say("reply.claim_in_use", node=wanted.node, indexes=shown, first=first))
        return said

    async def release(self, words: Sequence[str], click: Click) -> Answer:
        kept = [word for word in words if word not in _FILLERS]
        if len(kept) != 2:
            return reply.usage(self._words, RELEASE), False
        node, gpu = kept
        gpus = await self._gpus(RELEASE, node, gpu)
        if isinstance(gpus, Message):
            return gpus, False
        may_others = gpu != ALL and await self._approves(click.user, node)
        released, kept_claims = await self.claims.release(node, gpus, click, may_others=may_others)
        if not released and not kept_claims:
            indexes = Mrkdwn(index_ranges(gpus.values()))
            return reply.reply(self._words, "reply.not_claimed", node=node, indexes=indexes), True
        return reply.lines(self._words, self._of_release(node, released, kept_claims)), bool(released)

    def _of_release(self, node: str, released: Sequence[Claim], kept: Sequence[Claim]) -> list[Mrkdwn]:
        said = []
        if released:
            indexes = Mrkdwn(index_ranges(one.gpu_index for one in released))
            said.append(self._words.say("reply.released", node=node, indexes=indexes))
        if kept:
            said += [self._words.say("reply.claim_of_another", node=node), *claim_lines(self._words, kept)]
        return said

    async def pressed(self, click: Click) -> Message:
        return self._answer(await self.claims.pressed(click))

    def _answer(self, pressed: Pressed) -> Message:
        claim = pressed.claim
        if claim is None:
            return reply.reply(self._words, "reply.unknown_button")
        where = {"node": claim.node, "index": claim.gpu_index}
        values: Mapping[Answered, tuple[str, Mapping[str, object]]] = {
            Answered.KEPT: ("claim.kept", where | {"until": instant(claim.until)}),
            Answered.RELEASED: ("claim.released", where),
            Answered.ALREADY: ("reply.claim_answered", {"until": instant(claim.until)}),
            Answered.OVER: ("reply.claim_over", where | {"at": instant(pressed.ended_at or claim.until)}),
            Answered.NOT_YOURS: ("reply.claim_not_yours", {}),
        }
        key, said = values[pressed.answered]
        return reply.reply(self._words, key, **said)

    # --- what was not understood ------------------------------------------------------------------------------------

    def _until(self, word: str) -> datetime | Message:
        """The end; or what is wrong with it."""
        now = clock.now()
        until = snooze_end(word, now, self._zone)
        if until is None:
            return self._wrong(CLAIM, "usage.unknown_length", word)
        if until <= now and word.startswith("until="):
            return self._wrong(CLAIM, "usage.past_time", word)
        if not SHORTEST_SNOOZE <= until - now <= LONGEST_SNOOZE:
            return self._wrong(CLAIM, "usage.length_bounds", word)
        return until

    async def _gpus(self, command: str, node: str, word: str) -> dict[str, int] | Message:
        """UUID to index of what is named; or what is wrong with it."""
        nodes = self._queries.nodes()
        if node not in nodes:
            return self._wrong(command, "usage.unknown_node", node, nearest(node, nodes))
        known = await self._queries.gpus(node, None)
        if word == ALL and known:
            return known
        found = gpus_named(word, known)
        if len(found) == 1:
            return {found[0]: known[found[0]]}
        indexes = Mrkdwn(f"GPU {index_ranges(known.values())}" if known else "-")
        key = "usage.ambiguous_gpu" if found else "usage.no_such_gpu"
        said = self._words.say(key, node=node, word=code(word, 60), indexes=indexes)
        return reply.not_understood(self._words, command, said, None)

    def _wrong(self, command: str, key: str, word: str, close: str | None = None) -> Message:
        return reply.not_understood(self._words, command, self._words.say(key, word=code(word, 60)), close)
