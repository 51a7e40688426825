"""The Ed25519 key that signs what the bot tells nodes to do: made by init, its public half goes to every node.

The file's first line is the key. Below it stands every change of it so far, as it is told to nodes: one file, so that
no crash can part a key from the message that makes nodes believe it.
"""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path

import msgspec
from nacl.signing import SigningKey

from wire.configfile import ConfigError
from wire.files import write_private
from wire.keychange import BadKeyChangeError, decode_key_change, key_change, key_name


class OrderKeys(msgspec.Struct, frozen=True):
    """The key that counts, and the changes that lead to it from the first one, the oldest first."""

    signing: SigningKey
    changes: tuple[bytes, ...] = ()

    @property
    def public(self) -> bytes:
        return bytes(self.signing.verify_key)

    def since(self, name: str) -> Sequence[bytes] | None:
        """What a node must hear whose newest key has this name; None where it was never one of ours."""
        if name == key_name(self.public):
            return ()
        names = [key_name(decode_key_change(change).old_key) for change in self.changes]
        return self.changes[names.index(name) :] if name in names else None

    def __repr__(self) -> str:
        return f"OrderKeys({key_name(self.public)}, <secret>)"


def order_key_file(data_dir: Path) -> Path:
    return data_dir / "orders.key"


def make_order_key(data_dir: Path) -> None:
    """Raises OSError."""
    _write(data_dir, OrderKeys(SigningKey.generate()))


def read_order_keys(data_dir: Path) -> OrderKeys:
    """Raises ConfigError."""
    file = order_key_file(data_dir)
    try:
        first, *rest = file.read_text(encoding="ascii").split()
        keys = OrderKeys(SigningKey(_decoded(first)), tuple(map(_decoded, rest)))
        for change in keys.changes:
            decode_key_change(change)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}: gpu-oncall init makes it") from error
    except (ValueError, TypeError, binascii.Error, BadKeyChangeError) as error:
        raise ConfigError(f"{file} holds no key: put back the right one, or remove it and run init again") from error
    return keys


def public_order_key(data_dir: Path) -> bytes:
    """The 32 bytes that nodes verify with. Raises ConfigError."""
    return read_order_keys(data_dir).public


def rotate_order_key(data_dir: Path) -> OrderKeys:
    """A new key, which the one so far signed; that one is nowhere afterwards. Raises ConfigError, OSError."""
    before = read_order_keys(data_dir)
    signing = SigningKey.generate()
    keys = OrderKeys(signing, (*before.changes, key_change(before.signing, bytes(signing.verify_key))))
    _write(data_dir, keys)
    return keys


def _write(data_dir: Path, keys: OrderKeys) -> None:
    lines = [bytes(keys.signing), *keys.changes]
    write_private(order_key_file(data_dir), "".join(base64.b64encode(line).decode() + "\n" for line in lines))


def _decoded(line: str) -> bytes:
    return base64.b64decode(line, validate=True)
