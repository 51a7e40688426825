"""The nodes that may use the bus: one file per node with its public key, `nodes/NAME.pub` in the data_dir."""

import logging
from pathlib import Path

from wire import nkey, subjects
from wire.files import write_private

log = logging.getLogger(__name__)


def folder(data_dir: Path) -> Path:
    return data_dir / "nodes"


def read_nodes(data_dir: Path) -> dict[str, str]:
    """Name to public key. A file that holds no key is left out and told: it must not keep all other nodes away."""
    nodes: dict[str, str] = {}
    for path in sorted(folder(data_dir).glob("*.pub")):
        try:
            key = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            log.error("node left out, its key cannot be read file=%s error=%s", path, error)
            continue
        if subjects.is_node_name(path.stem) and nkey.is_public_key(key) and key not in nodes.values():
            nodes[path.stem] = key
        else:
            log.error("node left out: no valid name, no valid public key, or another node's key file=%s", path)
    return nodes


def register_node(data_dir: Path, name: str, public_key: str) -> None:
    """Lets the node in from the server's next start on. Raises ValueError for a bad name or key, OSError."""
    if not subjects.is_node_name(name):
        raise ValueError(f"{name!r} is no node name: lower-case letters, digits and hyphens, 63 at most")
    if not nkey.is_public_key(public_key):
        raise ValueError(f"the key of node {name} is no public key: it begins with U and has 56 characters")
    folder(data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder(data_dir) / f"{name}.pub", public_key + "\n")
