"""The key of a node that does not exist: with it the bot tries out what a node may do, and what it may not."""

from pathlib import Path

from wire import nkey
from wire.credentials import read_seed
from wire.files import write_private


def probe_key_file(data_dir: Path) -> Path:
    return data_dir / "probe.nkey"


def probe_key(data_dir: Path) -> str:
    """Its public half; made when it is missing. Raises ConfigError or OSError."""
    file = probe_key_file(data_dir)
    if not file.exists():
        write_private(file, nkey.generate_seed() + "\n")
    return nkey.public_key(read_seed(file))


def stranger_seed(data_dir: Path) -> str:
    """Of a key that no server knows, for trying out that it is refused: the bot's log knows it. Raises ConfigError."""
    return nkey.derived_seed(read_seed(probe_key_file(data_dir)), "a stranger")
