"""What `gpu-oncall node` does: it writes the files, and waits until the running bot's server has them."""

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from bot import clock
from bot.broker import nodes
from bot.broker.authority import authority_der
from bot.broker.enrolment import applied_rights, wanted_rights
from bot.config import BotConfig
from bot.lock import bot_surely_runs
from bot.order_key import public_order_key
from wire import addresses
from wire.configfile import ConfigError
from wire.enrolment import Token, encode_token
from wire.files import unwritten

APPLY_SECONDS = 30.0
LOOK_SECONDS = 0.05
ELSEWHERE = (
    "The bus is an external cluster: write its config anew with gpu-oncall bus print-config and let its servers reload."
)
NOT_RUNNING = "The bot does not run: it counts from its next start on."

Result = TypeVar("Result")


def add(config: BotConfig, name: str) -> tuple[str, list[str]]:
    """A join token for a new node, and what a person should know. Raises ConfigError."""
    if nodes.read_key(config.data_dir, name) is not None:
        raise ConfigError(
            f"node {name} is there already: gpu-oncall node rotate {name} gives it a new key, "
            f"gpu-oncall node remove {name} shuts it out"
        )
    return _invite(config, name)


def rotate(config: BotConfig, name: str) -> tuple[str, list[str]]:
    """A join token for a node that is there. Raises ConfigError."""
    if nodes.read_key(config.data_dir, name) is None:
        raise ConfigError(f"there is no node {name}: gpu-oncall node list shows all, gpu-oncall node add makes one")
    return _invite(config, name)


def remove(config: BotConfig, name: str) -> Iterator[str]:
    """Raises ConfigError."""
    if not _writing(lambda: nodes.remove_node(config.data_dir, name, nodes.REMOVED)):
        raise ConfigError(f"there is no node {name}: gpu-oncall node list shows all")
    note = settle(config)
    yield f"removed  node {name}"
    yield from note


def listing(config: BotConfig) -> Iterator[str]:
    """A line for each node that is in, or expected. Raises ConfigError."""
    now = clock.now()
    present = _writing(lambda: nodes.read_nodes(config.data_dir))
    lines = 0
    for name in sorted({*present, *nodes.names_with_joins(config.data_dir)}):
        expected = _expected(config.data_dir, name, now)
        if name in present or expected:
            lines += 1
            yield f"{name:24} {', '.join(filter(None, ['in' if name in present else '', expected]))}"
    if not lines:
        yield "There is no node yet: gpu-oncall node add NAME"


def _expected(data_dir: Path, name: str, now: datetime) -> str:
    """What the node's last join line waits for; "" where it was used or taken back."""
    last = next(reversed(nodes.read_joins(data_dir, name)), None)
    if last is None or last.closed:
        return ""
    why = last.why_not(now)
    return f"not joined: {why}" if why else f"may join until {last.expires_at:%H:%M} UTC"


def settle(config: BotConfig) -> list[str]:
    """Waits until the running bot's server has what the files say; what is left to do. Raises ConfigError."""
    if config.bus.embedded_server() is None:
        return [ELSEWHERE]
    deadline = clock.monotonic_seconds() + APPLY_SECONDS
    while bot_surely_runs(config.data_dir):
        if applied_rights(config.data_dir) == wanted_rights(config.data_dir, clock.now()):
            return []
        if clock.monotonic_seconds() > deadline:
            raise ConfigError(
                f"it is written down, and the running bot did not take it within {APPLY_SECONDS:.0f} s: see its log"
            )
        threading.Event().wait(LOOK_SECONDS)
    return [NOT_RUNNING]


def _invite(config: BotConfig, name: str) -> tuple[str, list[str]]:
    _require_work(config)
    servers, ca, bot_key = _servers(config), _ca(config), public_order_key(config.data_dir)
    seed = _writing(lambda: nodes.open_join(config.data_dir, name, clock.now()))
    notes = settle(config)
    embedded = config.bus.embedded_server()
    if embedded and addresses.is_loopback(addresses.host_and_port(embedded.listen)[0]):
        notes.append(
            "The bus listens on this machine only, so this works here only; for others set bot.bus.embedded.listen "
            "and names in the config."
        )
    return encode_token(Token(name, servers, ca, bot_key, seed)), notes


def _require_work(config: BotConfig) -> None:
    """Of two bots only the one that works hears of a node that joins."""
    if config.database is None:
        return
    from sqlalchemy.exc import SQLAlchemyError  # half a second that a bot on SQLite spares

    from bot.database import is_shared
    from bot.standby import who_works
    from bot.store.engine import why

    if not is_shared(config):
        return
    try:
        holder, is_this = who_works(config)
    except SQLAlchemyError as error:
        raise ConfigError(f"the database does not say which bot works: {why(error)}") from error
    if holder and not is_this:
        raise ConfigError(f"the bot on {holder} works, and the node's message arrives there: run this on its host")


def _servers(config: BotConfig) -> list[str]:
    embedded = config.bus.embedded_server()
    if embedded is None:
        return config.bus.servers
    port = addresses.host_and_port(embedded.listen)[1]
    scheme = addresses.CLEAR if config.bus.insecure else addresses.ENCRYPTED
    return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}" for host in embedded.hosts()]


def _ca(config: BotConfig) -> bytes:
    is_clear = all(server.startswith(f"{addresses.CLEAR}:") for server in _servers(config))
    return b"" if is_clear else authority_der(config.ca_file())


def _writing(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(unwritten(error, "the bot's user, or as root")) from error
