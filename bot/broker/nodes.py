"""The nodes that may use the bus, and the join keys that wait for one: `nodes/` in the data_dir.

NAME.pub is the node's public key, NAME.join what is known of its join keys. Terminal and bot both write here.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from bot.broker.kept_files import KeptFiles
from wire import nkey, subjects
from wire.files import give_to_owner, write_private

log = logging.getLogger(__name__)

JOIN_LIFE = timedelta(hours=1)
MOST_NODES = 10_000  # what one server was measured with
_KEPT_JOIN_KEYS = 8
# Why a join key does not count, as it is kept and logged.
OVER = "its hour is over"
USED = "it was used"
REPLACED = "a newer token was made"
OTHER_NODE = "it was not made for this node"
REMOVED = "the node was removed"


class JoinKey(msgspec.Struct, frozen=True):
    """A token's public key. `closed` says why it counts no more; "" until its hour is over."""

    key: str
    expires_at: datetime
    closed: str = ""

    def why_not(self, now: datetime) -> str:
        """Why it does not count now; "" when it does."""
        return self.closed or (OVER if now >= self.expires_at else "")


def folder(data_dir: Path) -> Path:
    return data_dir / "nodes"


class NodeFiles:
    """All of them, for whoever looks again and again: only what changed is read. All methods raise OSError."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = folder(data_dir)
        self._keys = KeptFiles(self._folder, ".pub", _read_key)
        self._joins = KeptFiles(self._folder, ".join", _read_joins)

    def nodes(self) -> dict[str, str]:
        """Name to public key. A file that holds no key is left out and told: it must not keep all other nodes away."""
        nodes: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, key in self._keys.values().items():
            if key and _may_be_node(name) and key not in names:
                nodes[name] = key
                names[key] = name
            else:
                log.error(
                    "node left out: no valid name, no valid public key, or another node's key file=%s",
                    self._folder / f"{name}.pub",
                )
        if len(nodes) > MOST_NODES:
            log.error(
                "more nodes than one bot takes, the last by name are left out nodes=%d most=%d", len(nodes), MOST_NODES
            )
        return dict(list(nodes.items())[:MOST_NODES])

    def owner_of(self, public_key: str) -> str | None:
        """The node that has this key; None for a new one."""
        return next((name for name, key in self._keys.values().items() if key == public_key), None)

    def open_joins(self, now: datetime) -> dict[str, JoinKey]:
        """The nodes that somebody may join as now, each with the one join key that counts."""
        return {name: join for name, joins in self._join_keys() for join in joins if not join.why_not(now)}

    def owners_of_join_keys(self) -> dict[str, str]:
        """Each join key and the node that it was made for, whether it still counts or not."""
        return {join.key: name for name, joins in self._join_keys() for join in joins}

    def _join_keys(self) -> Iterator[tuple[str, list[JoinKey]]]:
        return ((name, joins) for name, joins in self._joins.values().items() if _may_be_node(name))


def _read_key(file: Path) -> str | None:
    """Nothing ("") for what is no public key."""
    try:
        key = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        log.error("node left out, its key cannot be read file=%s error=%s", file, error)
        return None
    return key if nkey.is_public_key(key) else ""


def read_nodes(data_dir: Path) -> dict[str, str]:
    """See `NodeFiles.nodes`."""
    return NodeFiles(data_dir).nodes()


def read_key(data_dir: Path, name: str) -> str | None:
    """The node's public key; None where it has none that can be read."""
    try:
        return (folder(data_dir) / f"{name}.pub").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def register_node(data_dir: Path, name: str, public_key: str) -> None:
    """Lets the node in. Raises ValueError for a bad name or key, OSError."""
    require_name(name)
    if not nkey.is_public_key(public_key):
        raise ValueError(f"the key of node {name} is no public key: it begins with U and has 56 characters")
    _write(data_dir, f"{name}.pub", public_key + "\n")


def require_name(name: str) -> None:
    """Raises ValueError for what may not name a node."""
    if not _may_be_node(name):
        raise ValueError(f"{name!r} is no node name: lower-case letters, digits and hyphens, 63 at most")


def remove_node(data_dir: Path, name: str, why: str) -> bool:
    """Shuts the node out and its join keys too; whether there was anything to shut out. Raises OSError."""
    with locked(data_dir):
        closed = _close_joins(data_dir, name, why)
        file = folder(data_dir) / f"{name}.pub"
        existed = file.exists()
        file.unlink(missing_ok=True)
    return existed or closed


def open_join(data_dir: Path, name: str, now: datetime) -> str:
    """The seed of a new join key for the node; earlier ones count no more. Raises ValueError, OSError."""
    require_name(name)
    seed = nkey.generate_seed()
    with locked(data_dir):
        if read_key(data_dir, name) is None and sum(1 for _ in folder(data_dir).glob("*.pub")) >= MOST_NODES:
            raise ValueError(f"there are {MOST_NODES} nodes already, which is the most that one bot takes")
        _close_joins(data_dir, name, REPLACED)
        _write_joins(data_dir, name, [*read_joins(data_dir, name), JoinKey(nkey.public_key(seed), now + JOIN_LIFE)])
    return seed


def take_join(
    data_dir: Path, name: str, join_key: str, public_key: str, now: datetime, files: NodeFiles | None = None
) -> str:
    """Lets the node in with the key that its join key brought. "" when done, or why not. Raises OSError."""
    with locked(data_dir):
        if (why := why_not(data_dir, name, join_key, now)) != "":
            return why
        other = (files or NodeFiles(data_dir)).owner_of(public_key)
        if other not in (None, name):
            return f"node {other} has this key already"
        register_node(data_dir, name, public_key)
        _close_joins(data_dir, name, USED)
    return ""


def why_not(data_dir: Path, name: str, join_key: str, now: datetime) -> str:
    """Why this join key does not count for the node; "" when it does."""
    known = {join.key: join for join in read_joins(data_dir, name)}
    return known[join_key].why_not(now) if join_key in known else OTHER_NODE


def read_joins(data_dir: Path, name: str) -> list[JoinKey]:
    """What is known of the node's join keys, the oldest first."""
    return _read_joins(folder(data_dir) / f"{name}.join") or []


def _read_joins(file: Path) -> list[JoinKey] | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[JoinKey])
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.error("join keys cannot be read, they do not count file=%s error=%s", file, error)
        return None


def joined_at(data_dir: Path, name: str) -> datetime | None:
    """When the node's present key was written down; None where it has none."""
    try:
        return datetime.fromtimestamp((folder(data_dir) / f"{name}.pub").stat().st_mtime, UTC)
    except OSError:
        return None


def changed_at(data_dir: Path) -> int:
    """A number that differs after every change of these files: each is written by rename."""
    try:
        return folder(data_dir).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Keeps terminal and bot from writing at the same time. Raises OSError."""
    folder(data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(data_dir / "nodes.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        give_to_owner(data_dir / "nodes.lock", data_dir)
        give_to_owner(folder(data_dir), data_dir)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _close_joins(data_dir: Path, name: str, why: str) -> bool:
    joins = read_joins(data_dir, name)
    if all(join.closed for join in joins):
        return False
    _write_joins(data_dir, name, [JoinKey(join.key, join.expires_at, join.closed or why) for join in joins])
    return True


def _write_joins(data_dir: Path, name: str, joins: list[JoinKey]) -> None:
    _write(data_dir, f"{name}.join", msgspec.json.encode(joins[-_KEPT_JOIN_KEYS:]).decode())


def _write(data_dir: Path, file: str, text: str) -> None:
    folder(data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder(data_dir) / file, text)
    give_to_owner(folder(data_dir) / file, data_dir)


def names_with_joins(data_dir: Path) -> list[str]:
    """Whoever was ever given a join key."""
    return [path.stem for path in sorted(folder(data_dir).glob("*.join")) if _may_be_node(path.stem)]


def _may_be_node(name: str) -> bool:
    return subjects.is_node_name(name) and name != subjects.PROBE


def digest_of(nodes: Mapping[str, str], joins: Mapping[str, JoinKey]) -> str:
    """All rights as text: one state differs from another."""
    lines = [f"{name} {key}" for name, key in nodes.items()] + [
        f"{name} join {join.key}" for name, join in joins.items()
    ]
    return "\n".join(sorted(lines))
