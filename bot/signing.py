"""What `gpu-oncall rotate-signing-key` does."""

from collections.abc import Iterator

from bot.broker import nodes
from bot.config import BotConfig
from bot.lock import bot_surely_runs
from bot.order_key import rotate_order_key
from wire.configfile import ConfigError
from wire.files import unwritten
from wire.keychange import key_name


def rotate(config: BotConfig) -> Iterator[str]:
    """Raises ConfigError."""
    try:
        with nodes.locked(config.data_dir):  # two terminals at once would part the keys from their changes
            keys = rotate_order_key(config.data_dir)
    except OSError as error:
        raise ConfigError(unwritten(error, "the bot's user, or as root")) from error
    yield f"made     a new key for orders, {key_name(keys.public)}; the old one is nowhere any more"
    if not bot_surely_runs(config.data_dir):
        yield "The bot does not run: it tells its nodes at its next start."
        return
    yield "Nodes hear of it within seconds; those that are off, when they come back."
    yield "For an hour they still take orders that the old key signed before."
