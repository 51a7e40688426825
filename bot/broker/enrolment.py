"""Lets nodes in and out while the bot runs: join messages, the terminal's changes, and the server's certificate."""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
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
# A node that joins tries its own key and sends its message again, so that its last attempt can come after its success.
SAME_JOIN = timedelta(minutes=1)
OTHER_NAME = "it was tried for another name"
_MOST_WAITING = 1000  # join messages; a node sends its own again
_REMEMBERED = 256


class RefusedJoin(msgspec.Struct, frozen=True):
    """Somebody wanted in as a node, and was not let in. `token` is its public key, "" where it is not known."""

    node: str
    why: str
    token: str = ""
    address: str = ""


class Enrolment:
    """`run` until cancelled. `server` None: an external cluster, which takes its users from `bus print-config`.

    `on_refused` may be set to what is told of every join that was refused; it must return at once.
    """

    def __init__(self, data_dir: Path, link: Link, server: EmbeddedServer | None) -> None:
        self._data_dir = data_dir
        self._files = nodes.NodeFiles(data_dir)
        self._link = link
        self._server = server
        self._waiting: deque[Join] = deque(maxlen=_MOST_WAITING)
        self._refused: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)
        self._trouble = ""
        self._owners: dict[str, str] = {}
        self._owners_of = -1
        self.on_refused: Callable[[RefusedJoin], None] = lambda refused: None

    async def run(self) -> None:
        await self._link.subscribe(subjects.JOINS, self._on_join)
        if self._server is not None:
            self._server.on_refused = self._on_refused_key
            self._server.on_violation = self._on_violation
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
            self._tell_refused(RefusedJoin(subjects.node_of(message.subject), str(error)))

    def _take_joins(self, now: datetime) -> None:
        while self._waiting:
            join = self._waiting.popleft()
            try:
                why = self._take(join, now)
            except OSError as error:
                log.error("node cannot join, its key cannot be kept node=%s error=%s", join.node, error)
                continue
            if why:
                self._tell_refused(RefusedJoin(join.node, why, join.join_key))

    def _take(self, join: Join, now: datetime) -> str:
        if nodes.read_key(self._data_dir, join.node) == join.key:
            return ""  # the node sends its message again until it is in
        why = nodes.take_join(self._data_dir, join.node, join.join_key, join.key, now, self._files)
        if not why:
            log.info("node joined node=%s", join.node)
        return why

    def _on_refused_key(self, key: str, address: str) -> None:
        """The server let somebody not in: with a token that counts no more this is worth a word of its own."""
        node = self._owner(key)
        if node is None:
            return
        why = nodes.why_not(self._data_dir, node, key, clock.now())
        if not why or (why == nodes.USED and self._joined_just_now(node)):
            log.info("join key not let in, its node is on its way in node=%s from=%s", node, address)
            return
        self._tell_refused(RefusedJoin(node, why, key, address))

    def _owner(self, join_key: str) -> str | None:
        """The node that it was made for. All files are read for it, and strangers can ask as often as they like: so
        they are read again only where something changed, which no stranger can do.
        """
        changed_at = nodes.changed_at(self._data_dir)
        if join_key not in self._owners and changed_at != self._owners_of:
            self._owners, self._owners_of = self._files.owners_of_join_keys(), changed_at
        return self._owners.get(join_key)

    def _joined_just_now(self, node: str) -> bool:
        joined_at = nodes.joined_at(self._data_dir, node)
        return joined_at is not None and abs(clock.now() - joined_at) < SAME_JOIN

    def _on_violation(self, key: str, address: str, subject: str) -> None:
        """Somebody with a join key tried to join under another name, which the server's own words tell."""
        node = self._owner(key)
        if node is not None:
            self._tell_refused(RefusedJoin(node, OTHER_NAME, key, address))

    def _tell_refused(self, refused: RefusedJoin) -> None:
        """In the log once per token and reason: whoever tries again and again fills no log."""
        self.on_refused(refused)
        told = (refused.token or refused.node, refused.why)
        if told not in self._refused:
            self._refused.append(told)
            where = f", from={refused.address}" if refused.address else ""
            log.error("join refused: its token does not count node=%s why=%s%s", refused.node, refused.why, where)

    # --- the server -------------------------------------------------------------------------------------------------

    async def _apply(self, applied: str) -> str:
        """What the server has now. One reload for whatever changed meanwhile."""
        try:
            wanted = await asyncio.to_thread(rights_of, self._files, clock.now())
            if wanted == applied or self._server is None:
                return wanted
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
    return rights_of(nodes.NodeFiles(data_dir), now)


def rights_of(files: nodes.NodeFiles, now: datetime) -> str:
    """The same. Raises OSError."""
    text = nodes.digest_of(files.nodes(), files.open_joins(now))
    return hashlib.sha256(text.encode()).hexdigest()


def applied_rights(data_dir: Path) -> str:
    """The same of what the server has; "" where that is not known."""
    try:
        return applied_file(data_dir).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
