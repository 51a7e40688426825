"""Lets nodes in and out while the bot runs: join messages, the terminal's changes, and the server's certificate."""

import asyncio
import hashlib
import logging
from collections import deque
from datetime import datetime, timedelta
from pathlib import Path

from nats.aio.msg import Msg

from bot import clock
from bot.broker import nodes
from bot.broker.embedded import EmbeddedServer
from bot.broker.errors import BrokerError
from wire import subjects
from wire.configfile import ConfigError
from wire.enrolment import LONGEST_JOIN, BadJoinError, Join, decode_join
from wire.files import write_private
from wire.link import Link

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.25
READ_AGAIN = timedelta(seconds=5)  # a folder's time stamp is coarse: two changes within 4 ms can look like one
RENEW_EVERY = timedelta(days=1)
_MOST_WAITING = 1000  # join messages; a node sends its own again
_REMEMBERED = 256


class Enrolment:
    """`run` until cancelled. `server` None: an external cluster, which takes its users from `bus print-config`."""

    def __init__(self, data_dir: Path, link: Link, server: EmbeddedServer | None) -> None:
        self._data_dir = data_dir
        self._link = link
        self._server = server
        self._waiting: deque[Join] = deque(maxlen=_MOST_WAITING)
        self._refused: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)
        self._trouble = ""

    async def run(self) -> None:
        await self._link.subscribe(subjects.JOINS, self._on_join)
        if self._server is not None:
            self._server.on_refused = self._on_refused_key
        read_at, renewed_at, seen, applied = clock.now(), clock.now(), -1, ""
        while True:
            now = clock.now()
            self._take_joins(now)
            changed_at = nodes.changed_at(self._data_dir)
            # Also when nothing changed here: an hour can be over, and a clock can have been put back.
            if changed_at != seen or abs(now - read_at) >= READ_AGAIN:
                read_at, seen = now, changed_at
                applied = await self._apply(applied)
            if abs(now - renewed_at) >= RENEW_EVERY:
                renewed_at = now
                await self._renew()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    # --- join messages ----------------------------------------------------------------------------------------------

    async def _on_join(self, message: Msg) -> None:
        """Nothing is answered: the node tries its new key."""
        try:
            if len(message.data) > LONGEST_JOIN:
                raise BadJoinError("it is too large")
            self._waiting.append(decode_join(message.subject, message.data))
        except BadJoinError as error:
            self._tell_refused(subjects.node_of(message.subject), str(error))

    def _take_joins(self, now: datetime) -> None:
        while self._waiting:
            join = self._waiting.popleft()
            try:
                why = self._take(join, now)
            except OSError as error:
                log.error("node cannot join, its key cannot be kept node=%s error=%s", join.node, error)
                continue
            if why:
                self._tell_refused(join.node, why)

    def _take(self, join: Join, now: datetime) -> str:
        if nodes.read_key(self._data_dir, join.node) == join.key:
            return ""  # the node sends its message again until it is in
        why = nodes.take_join(self._data_dir, join.node, join.join_key, join.key, now)
        if not why:
            log.info("node joined node=%s", join.node)
        return why

    def _on_refused_key(self, key: str, address: str) -> None:
        """The server let somebody not in: with a token that counts no more this is worth a word of its own."""
        node = nodes.owner_of_join_key(self._data_dir, key)
        if node is not None:
            why = nodes.why_not(self._data_dir, node, key, clock.now()) or "the server did not know it yet"
            self._tell_refused(node, f"{why}, from={address}", once_for=key)

    def _tell_refused(self, node: str, why: str, once_for: str = "") -> None:
        """Once per token, or per node and reason: whoever tries again and again fills no log."""
        if (node, once_for or why) not in self._refused:
            self._refused.append((node, once_for or why))
            log.error("join refused: its token does not count node=%s why=%s", node, why)

    # --- the server -------------------------------------------------------------------------------------------------

    async def _apply(self, applied: str) -> str:
        """What the server has now. One reload for whatever changed meanwhile."""
        wanted = await asyncio.to_thread(wanted_rights, self._data_dir, clock.now())
        if wanted == applied or self._server is None:
            return wanted
        try:
            await self._server.apply()
            await asyncio.to_thread(write_private, applied_file(self._data_dir), wanted)
        except (BrokerError, ConfigError, OSError) as error:
            self._tell_trouble(f"nodes cannot be let in or out error={error}")
            return applied
        self._tell_trouble("")
        return wanted

    async def _renew(self) -> None:
        if self._server is None:
            return
        try:
            if self._server.renew_certificate():
                await self._server.apply(again=True)
        except (BrokerError, ConfigError, OSError) as error:
            log.error("server certificate cannot be renewed, tomorrow again error=%s", error)

    def _tell_trouble(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.error(trouble)
        self._trouble = trouble


def applied_file(data_dir: Path) -> Path:
    return data_dir / "nodes.applied"


def wanted_rights(data_dir: Path, now: datetime) -> str:
    """A digest of who may be on the bus: what the files say now."""
    text = nodes.digest_of(nodes.read_nodes(data_dir), nodes.open_joins(data_dir, now))
    return hashlib.sha256(text.encode()).hexdigest()


def applied_rights(data_dir: Path) -> str:
    """The same of what the server has; "" where that is not known."""
    try:
        return applied_file(data_dir).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
