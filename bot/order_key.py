"""The Ed25519 key that signs what the bot tells nodes to do: made by init, its public half goes to every node."""

import base64
import binascii
from pathlib import Path

from nacl.signing import SigningKey

from wire.configfile import ConfigError
from wire.files import write_private


def order_key_file(data_dir: Path) -> Path:
    return data_dir / "orders.key"


def make_order_key(data_dir: Path) -> None:
    """Raises OSError."""
    write_private(order_key_file(data_dir), base64.b64encode(bytes(SigningKey.generate())).decode() + "\n")


def public_order_key(data_dir: Path) -> bytes:
    """The 32 bytes that nodes verify with. Raises ConfigError."""
    file = order_key_file(data_dir)
    try:
        return bytes(SigningKey(base64.b64decode(file.read_text(encoding="ascii").strip(), validate=True)).verify_key)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}: gpu-oncall init makes it") from error
    except (ValueError, TypeError, binascii.Error) as error:
        raise ConfigError(f"{file} holds no key: put back the right one, or remove it and run init again") from error
