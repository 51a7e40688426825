"""The command `gpu-oncall-agent join`: this machine becomes a node of the bot that gave out the token."""

import asyncio
import json
import logging
import os
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult

import click
from click.core import ParameterSource

from agent.config import AgentConfig, load
from agent.config_file import JOINED_CONFIG, find_config
from wire import addresses, nkey, nodefiles, subjects, tls
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.dial import Identity, visit
from wire.enrolment import BadTokenError, Token, decode_token, join_message
from wire.files import unwritten, write_private

PATIENCE_SECONDS = 60.0
FIRST_LOOK_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 3.0
_REFUSED = "authorization violation"
_NOT_ALLOWED = "permissions violation"


class JoinError(Exception):
    """This machine did not join; the text says why and what to do."""


@dataclass(frozen=True)
class Place:
    """Where the node's files go. `config` None: there is one already."""

    state_dir: Path
    key: Path
    ca: Path
    config: Path | None

    @property
    def new_key(self) -> Path:
        """Kept until it counts: if this is cut off after the bot took it, the next attempt goes on with it."""
        return self.key.with_name(f"{self.key.name}.new")


@click.command()
@click.argument("token", required=False)
@click.option("--config", type=click.Path(path_type=Path), help="This node's config.yaml; made when it is missing.")
@click.option("--state-dir", type=click.Path(path_type=Path), help="Where key and config go, without a config.")
@click.pass_context
def join(context: click.Context, token: str | None, config: Path | None, state_dir: Path | None) -> None:
    """Join with the line that `gpu-oncall node add` printed; without TOKEN it is asked for, - reads it from stdin.

    The node's key is made here and never leaves this machine.
    """
    if token not in (None, "-") and context.get_parameter_source("token") is ParameterSource.COMMANDLINE:
        _hide(str(token))
    text = sys.stdin.read() if token == "-" else token or click.prompt("Join token", hide_input=True, err=True)
    logging.getLogger("nats").setLevel(logging.CRITICAL)
    try:
        known = decode_token(text)
        place = _place(known, config, state_dir)
        asyncio.run(_join(known, place))
    except (BadTokenError, ConfigError) as error:
        raise click.UsageError(str(error)) from error
    except JoinError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(unwritten(error)) from error
    click.echo(f"joined as node {known.node}; key {place.key}")
    if place.config is not None:
        click.echo(f"made {place.config}; start with: gpu-oncall-agent run --config {place.config}")


def _hide(token: str) -> None:
    """Starts this program anew with the token on stdin: arguments are for everybody to read in the process list."""
    if token not in sys.orig_argv:
        return
    reading, writing = os.pipe()
    os.write(writing, token.encode())
    os.close(writing)
    os.dup2(reading, 0)
    os.close(reading)
    os.execv(sys.executable, [sys.executable, *("-" if part == token else part for part in sys.orig_argv[1:])])


def _place(token: Token, option: Path | None, state_dir: Path | None) -> Place:
    """Raises ConfigError where the config that is there is another node's or another bus's."""
    file = option
    if file is None:
        file = find_config(None) if state_dir is None else state_dir / "config.yaml"
    if file is not None and file.exists():
        config = load(file)
        _require_fitting(config, token, file)
        return Place(config.state_dir, config.key_file(), config.ca_file(), None)
    folder = (state_dir or (JOINED_CONFIG.parent if file is None else file.parent / "agent")).absolute()
    made = (file or folder / "config.yaml").absolute()
    return Place(folder, nodefiles.key_file(folder), nodefiles.ca_file(folder), made)


def _require_fitting(config: AgentConfig, token: Token, file: Path) -> None:
    if config.node != token.node:
        raise ConfigError(
            f"{file} is of node {config.node} and the token is for {token.node}: set agent.node: {token.node} there, "
            f"or ask for a token with gpu-oncall node add {config.node}"
        )
    if not set(config.bus.servers) & set(token.servers):
        raise ConfigError(
            f"{file} names other servers than the token: set agent.bus.servers: [{', '.join(token.servers)}] there"
        )


async def _join(token: Token, place: Place) -> None:
    """Returns when the bus lets the new key in. Raises JoinError, ConfigError, OSError."""
    place.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_second_attempt = place.new_key.exists()
    if not is_second_attempt:
        write_private(place.new_key, nkey.generate_seed() + "\n")
    seed = read_seed(place.new_key)
    if not (is_second_attempt and not await _why_not_in(token, seed)):
        await _ask(token, seed)
    _keep(token, place)


async def _ask(token: Token, seed: str) -> None:
    """Sends the public key, and tries it until it counts: that is the only answer."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    pause_seconds, sent, why = FIRST_LOOK_SECONDS, False, ""
    while asyncio.get_running_loop().time() < deadline:
        refused = await _send(token, nkey.public_key(seed))
        sent = sent or not refused
        await asyncio.sleep(pause_seconds)
        if sent and not (why := await _why_not_in(token, seed)):
            return
        if refused == _REFUSED and not sent:
            raise JoinError(
                f"the token for {token.node} is not accepted: it lives one hour and works once; "
                f"ask for a new one with gpu-oncall node add {token.node} (or node rotate)"
            )
        if refused == _NOT_ALLOWED:
            raise JoinError(f"the token was not made for {token.node}: ask for one with gpu-oncall node add")
        why = why or refused
        pause_seconds = min(pause_seconds * 1.5, LONGEST_PAUSE_SECONDS)
    raise JoinError(f"the bot did not let us in within {PATIENCE_SECONDS:.0f} s: {why}; see the bot's log")


async def _send(token: Token, public_key: str) -> str:
    """Why the message did not go out; "" when it did."""
    body, why = join_message(token, public_key), ""
    for server in token.servers:
        try:
            async with visit(*_way(token, server, token.join_seed)) as visited:
                await visited.client.publish(subjects.join(token.node), body)
                for _ in range(2):  # the first flush of nats-py may overtake what it shall flush
                    await visited.client.flush(timeout=5)
                return next((_NOT_ALLOWED for word in visited.complaints if _NOT_ALLOWED in word.lower()), "")
        except Exception as error:  # whatever a dying connection raises: the next server, or the next attempt
            why = _REFUSED if _REFUSED in str(error).lower() else f"{_place_of(server)}: {tls.words(error)}"
    return why


async def _why_not_in(token: Token, seed: str) -> str:
    """Why the node's own key does not connect; "" when it does."""
    why = ""
    for server in token.servers:
        try:
            async with visit(*_way(token, server, seed)):
                return ""
        except ConnectionError as error:
            why = f"{_place_of(server)}: {error}"
    return why


def _way(token: Token, server: str, seed: str) -> tuple[SplitResult, Identity, ssl.SSLContext | None]:
    parts = addresses.server_address(server, insecure=True)
    context = tls.context_of(_pem(token)) if parts.scheme == addresses.ENCRYPTED else None
    return parts, Identity(seed, subjects.inbox(token.node), f"join {token.node}"), context


def _place_of(server: str) -> str:
    return server.partition("://")[2]


def _keep(token: Token, place: Place) -> None:
    """The key last: with it everything is there."""
    if token.ca:
        write_private(place.ca, _pem(token))
    write_private(nodefiles.order_key_file(place.state_dir), nodefiles.order_key_text(token.bot_key))
    if place.config is not None:
        place.config.parent.mkdir(parents=True, exist_ok=True)
        write_private(place.config, _config_text(token, place))
    os.replace(place.new_key, place.key)


def _config_text(token: Token, place: Place) -> str:
    is_clear = any(server.startswith(f"{addresses.CLEAR}:") for server in token.servers)
    servers = ", ".join(json.dumps(server) for server in token.servers)
    insecure = "\n    insecure: true" if is_clear else ""
    return f"""\
# Made by gpu-oncall-agent join. Every other key, with its default: the annotated config.yaml of gpu-oncall.
agent:
  node: {token.node}
  state_dir: {json.dumps(str(place.state_dir), ensure_ascii=False)}
  bus:
    servers: [{servers}]{insecure}
"""


def _pem(token: Token) -> str:
    try:
        return ssl.DER_cert_to_PEM_cert(token.ca)
    except (ValueError, TypeError) as error:
        raise BadTokenError("the join token is damaged: copy the whole line") from error
