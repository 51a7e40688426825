"""The bot's side of the terminal: a Unix socket that only the bot's own user and root may open."""

import asyncio
import contextlib
import logging
import os
import pwd
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from bot.render.words import Words, words
from bot.terminal.wire import LONGEST_LINE, Reply, Request, encode, request_of

log = logging.getLogger(__name__)

ASK_SECONDS = 5.0
_CREDENTIALS = struct.Struct("3i")

Answer = Callable[[Request, str], Awaitable[Reply]]


@contextlib.asynccontextmanager
async def terminal(path: Path, answer: Answer, language: str = "en") -> AsyncIterator[None]:
    """Listens until it is left. `answer` gets the request and who asks, `host:<user>` as the kernel knows it."""
    _remove(path)  # a killed bot leaves it behind, and the data folder's lock is ours
    try:
        server = await asyncio.start_unix_server(_handler(answer, words(language)), path, limit=LONGEST_LINE)
        os.chmod(path, 0o600)
    except OSError as error:
        log.error("The terminal cannot ask this bot; socket=%s error=%s", path, error.strerror)
        yield
        return
    try:
        yield
    finally:
        server.close()
        _remove(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _handler(answer: Answer, said: Words) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                line = await reader.readline()
            reply = await _reply(answer, said, line, writer.get_extra_info("socket"))
            writer.write(encode(reply) + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError) as error:  # whoever asked is gone, or never asked
            log.info("A terminal went away; error=%s", type(error).__name__)
        finally:
            writer.close()

    return handle


async def _reply(answer: Answer, said: Words, line: bytes, peer: socket.socket) -> Reply:
    try:
        return await answer(request_of(line), user_of(peer))
    except msgspec.DecodeError:
        return Reply(said.plain("terminal.other_version"), False)
    except SQLAlchemyError as error:
        log.error("The terminal could not be answered: the database takes nothing; error=%s", error)
        return Reply(said.plain("answer.database"), False)
    except Exception:
        log.exception("The terminal could not be answered")
        return Reply(said.plain("answer.bug"), False)


def user_of(peer: socket.socket) -> str:
    """`host:<user>`: who opened the socket, as the kernel knows it."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return host_user(_CREDENTIALS.unpack(raw)[1])


def host_user(uid: int) -> str:
    try:
        return f"host:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"host:{uid}"
