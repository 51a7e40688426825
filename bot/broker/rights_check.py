"""Tries on the live bus what bot and nodes may do and what they may not; leaves nothing behind."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult

from bot.broker.probe_key import probe_key_file, stranger_seed
from wire import addresses, subjects
from wire.credentials import read_seed
from wire.dial import Identity, Visit, visit
from wire.tls import client_context

CHECKS = "check"  # its connections call themselves so, with whose rights they have
ANSWER_SECONDS = 5.0
_SILENCE_SECONDS = 1.0
_REFUSED = "permissions violation"
# No stream has so many messages: a publication that expects it reaches the stream, and is never stored.
_NEVER = {"Nats-Expected-Last-Sequence": str(2**53)}
_WRONG_SEQUENCE = 10071


@dataclass(frozen=True)
class Attempt:
    """`who` did `what`; all is well when `was_let` is what it should be."""

    who: str
    what: str
    may: bool
    was_let: bool

    @property
    def is_well(self) -> bool:
        return self.may == self.was_let


@dataclass(frozen=True)
class Bus:
    """One server, and the keys of the bot and of the probe, which has a node's rights."""

    server: str
    ca_file: Path
    bot_seed: str
    data_dir: Path

    def visit(self, seed: str, owner: str) -> AbstractAsyncContextManager[Visit]:
        identity = Identity(seed, subjects.inbox(owner), f"{CHECKS} {owner}")
        return visit(self.address, identity, client_context(self.ca_file) if self.is_encrypted else None)

    @property
    def address(self) -> SplitResult:
        return addresses.server_address(self.server, insecure=True)

    @property
    def is_encrypted(self) -> bool:
        return self.address.scheme == addresses.ENCRYPTED


async def attempts(bus: Bus, other: str) -> AsyncIterator[Attempt]:
    """Every right and every missing right; `other` is a node that the probe must not speak for or hear.

    Raises ConnectionError where the bot or the probe is not let in at all.
    """
    yield Attempt("somebody without a key of ours", "connect", False, await _connects(bus, stranger_seed(bus.data_dir)))
    if bus.is_encrypted:
        yield Attempt("somebody without TLS", "be greeted", False, await _greets_in_clear(bus))
    async with AsyncExitStack() as stack:
        bot = await stack.enter_async_context(bus.visit(bus.bot_seed, subjects.BOT))
        node = await stack.enter_async_context(bus.visit(read_seed(probe_key_file(bus.data_dir)), subjects.PROBE))
        yield Attempt("a node", "send its own observations", True, await _reaches_stream(node))
        yield Attempt("a node", "send its own heartbeat", True, await _is_heard(node, bot))
        for subject in _node_hears():
            yield Attempt("a node", f"hear {subject}", True, await _may_hear(node, subject))
        for subject in _node_must_not_say(other):
            yield Attempt("a node", f"say {subject}", False, await _may_say(node, subject))
        for subject in _node_must_not_hear(other):
            yield Attempt("a node", f"hear {subject}", False, await _may_hear(node, subject))
        yield Attempt("the bot", "read the stream", True, await _reads_stream(bot))
        for subject in (subjects.HEARTBEATS, subjects.JOINS):
            yield Attempt("the bot", f"hear {subject}", True, await _may_hear(bot, subject))
        for subject in (subjects.command(subjects.PROBE), subjects.key_change(subjects.PROBE)):
            yield Attempt("the bot", f"say {subject}", True, await _may_say(bot, subject))
        for subject in (subjects.observations(other), subjects.heartbeat(other), subjects.join(other)):
            yield Attempt("the bot", f"say {subject}", False, await _may_say(bot, subject))
        for subject in (subjects.OBSERVATIONS, f"{subjects.inbox(other)}.>", "$SYS.>", ">"):
            yield Attempt("the bot", f"hear {subject}", False, await _may_hear(bot, subject))


def _node_hears() -> tuple[str, ...]:
    return subjects.command(subjects.PROBE), subjects.key_change(subjects.PROBE), f"{subjects.inbox(subjects.PROBE)}.>"


def _node_must_not_say(other: str) -> tuple[str, ...]:
    """Where a server would let it, these do no harm: the body is none of ours, and no stream has that name."""
    of_other = (subjects.observations(other), subjects.heartbeat(other), subjects.command(other), subjects.join(other))
    of_bot = (subjects.key_change(other), subjects.key_change(subjects.PROBE))
    of_jetstream = ("$JS.API.INFO", "$JS.API.STREAM.INFO.OBS", "$JS.API.STREAM.DELETE.NONE", "$JS.ACK.NONE.x.1.1.1.1.0")
    of_inboxes = (f"{subjects.inbox(subjects.BOT)}.x", f"{subjects.inbox(other)}.x", "_INBOX.x")
    return (*of_other, *of_bot, *of_jetstream, *of_inboxes, "$SYS.REQ.SERVER.PING", subjects.join(subjects.PROBE))


def _node_must_not_hear(other: str) -> tuple[str, ...]:
    return (
        *(subjects.OBSERVATIONS, subjects.HEARTBEATS, subjects.JOINS, subjects.observations(other)),
        *(subjects.command(other), subjects.command("*"), subjects.key_change(other), f"{subjects.inbox(other)}.>"),
        *(f"{subjects.inbox(subjects.BOT)}.>", "_INBOX.>", "$JS.>", "$SYS.>", ">"),
    )


async def _connects(bus: Bus, seed: str) -> bool:
    try:
        async with bus.visit(seed, subjects.PROBE):
            return True
    except ConnectionError:
        return False


async def _greets_in_clear(bus: Bus) -> bool:
    reader, writer = await asyncio.open_connection(bus.address.hostname, bus.address.port)
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            return bool(await reader.read(4))
    except TimeoutError:
        await _speak_tls(bus, writer)
        return False
    except OSError:
        return False
    finally:
        writer.close()


async def _speak_tls(bus: Bus, writer: asyncio.StreamWriter) -> None:
    """The server would log an end without it as an error, which is nobody's fault."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            await writer.start_tls(client_context(bus.ca_file), server_hostname=bus.address.hostname)


async def _may_say(visited: Visit, subject: str) -> bool:
    await visited.client.publish(subject, b"a check of rights", headers=_NEVER)
    return await _is_let(visited, f'publish to "{subject}"')


async def _may_hear(visited: Visit, subject: str) -> bool:
    await visited.client.subscribe(subject)
    return await _is_let(visited, f'subscription to "{subject}"')


async def _is_let(visited: Visit, attempt: str) -> bool:
    """The server complains before it answers."""
    await _settle(visited)
    return not any(_REFUSED in text and attempt.lower() in text for text in map(str.lower, visited.complaints))


async def _settle(visited: Visit) -> None:
    """Returns when the server has taken everything; the first flush of nats-py may overtake what it shall flush."""
    for _ in range(2):
        await visited.client.flush(timeout=int(ANSWER_SECONDS))


async def _reaches_stream(node: Visit) -> bool:
    subject = subjects.observations(subjects.PROBE)
    try:
        answer = await node.client.request(subject, b"", timeout=ANSWER_SECONDS, headers=_NEVER)
    except Exception:  # time-out, nobody there: in each case it does not reach the stream
        return False
    error = json.loads(answer.data).get("error") or {}
    return error.get("err_code") == _WRONG_SEQUENCE


async def _is_heard(node: Visit, bot: Visit) -> bool:
    subscription = await bot.client.subscribe(subjects.HEARTBEATS)
    await _settle(bot)
    await node.client.publish(subjects.heartbeat(subjects.PROBE), b"a check of rights")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while (await subscription.next_msg(ANSWER_SECONDS)).subject != subjects.heartbeat(subjects.PROBE):
                pass
    except Exception:  # nats-py raises its own time-out and the plain one
        return False
    finally:
        await subscription.unsubscribe()
    return True


async def _reads_stream(bot: Visit) -> bool:
    try:
        info = await bot.client.request(f"$JS.API.STREAM.INFO.{subjects.STREAM}", b"", timeout=ANSWER_SECONDS)
    except Exception:  # whatever nats-py raises, it cannot
        return False
    return "error" not in json.loads(info.data)
