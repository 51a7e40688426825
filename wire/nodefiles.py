"""The files in a node's state_dir with which it knows its bot, beside its own key."""

import base64
from pathlib import Path


def ca_file(state_dir: Path) -> Path:
    return state_dir / "ca.pem"


def key_file(state_dir: Path) -> Path:
    return state_dir / "node.nkey"


def order_key_file(state_dir: Path) -> Path:
    """The bot's public key: what it signed is an order."""
    return state_dir / "bot.pub"


def order_key_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode() + "\n"


def read_order_key(file: Path) -> bytes:
    """The raw public key in the file. Raises OSError; ValueError where it holds none."""
    raw = base64.b64decode(file.read_text(encoding="ascii").strip(), validate=True)
    if len(raw) != 32:
        raise ValueError("it holds no key")
    return raw
