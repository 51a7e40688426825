"""`gpu-oncall init`: config, folders and keys for the bot and one node on this machine; overwrites nothing."""

import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bot import clock
from bot import config as bot_config
from bot.broker.authority import renew_certificate, tls_files
from bot.broker.nodes import read_nodes, register_node
from bot.init_answers import NOTHING, Answers, filled_in
from bot.order_key import make_order_key, order_key_file, public_order_key
from wire import nkey, nodefiles, subjects, yamllines
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.files import unwritten, write_private

ANNOTATED = Path(__file__).with_name("annotated.yaml")
NAME_WITHOUT_HOST = "gpu-01"


def initialise(folder: Path, answers: Answers = NOTHING) -> Iterator[str]:
    """Makes what is missing and yields a line for each part. Raises ConfigError for what cannot be used as it is."""
    folder = folder.absolute()
    try:
        yield from _make_all(folder, answers)
    except OSError as error:
        raise ConfigError(unwritten(error)) from error


def initialise_bot(file: Path) -> Iterator[str]:
    """Makes what the bot's section of this config wants, no node; yields a line for each part. Raises ConfigError."""
    config = bot_config.load(file)
    try:
        yield from _make_bot(config)
    except OSError as error:
        raise ConfigError(unwritten(error)) from error


def next_steps(folder: Path, answers: Answers = NOTHING) -> str:
    config = shlex.quote(str(folder.absolute() / "config.yaml"))
    missing = [
        "  gpu-oncall slack manifest          the app, to paste at api.slack.com/apps: docs/slack-app.md",
        "  export SLACK_BOT_TOKEN=xoxb-...    the app's bot token",
        "  export SLACK_APP_TOKEN=xapp-...    the app-level token, for Socket Mode",
    ]
    if answers.channel is None:
        missing.append(f"  bot.slack.channels.default         the channel's id, in {config}")
    if answers.servers:
        missing.append(
            "  the bot's and the nodes' accounts on your servers: gpu-oncall bus print-config, docs/install.md"
        )
    lines = "\n".join(missing)
    return f"""
What is still missing comes from Slack:
{lines}

Does everything fit?
  gpu-oncall check --config {config}

Then, in two terminals on this machine (more machines: gpu-oncall node add NAME):
  gpu-oncall run --config {config}
  gpu-oncall-agent run --config {config}
"""


def _make_all(folder: Path, answers: Answers) -> Iterator[str]:
    file = folder / "config.yaml"
    if file.exists():
        yield f"kept  {file}"
    else:
        folder.mkdir(parents=True, exist_ok=True)
        write_private(file, filled_in(_of_this_machine(folder), answers))
        yield f"made  {file}"
    config = bot_config.load(file)
    node, state_dir, node_key = _node_in(file)
    for path in (config.data_dir, state_dir):
        if not path.is_relative_to(folder):
            raise ConfigError(f"{file} is there and keeps its data in {path}: leave it, and choose another folder")
    for path in (config.data_dir, state_dir):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield from _make_bot(config)
    yield from _make_key(node_key)
    yield from _tell_node(config, state_dir)
    yield _register(config.data_dir, node, nkey.public_key(read_seed(node_key)))


def _make_bot(config: bot_config.BotConfig) -> Iterator[str]:
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield from _make_key(config.key_file())
    yield from _make_order_key(config.data_dir)
    yield from _make_tls(config)


def _of_this_machine(folder: Path) -> str:
    """The annotated file with this machine's paths and name in it."""
    try:
        node = subjects.node_name_from_host(socket.gethostname())
    except ValueError:
        node = NAME_WITHOUT_HOST
    text = ANNOTATED.read_text(encoding="utf-8")
    lines = {
        "#node": ("node", node),
        "state_dir": ("state_dir", str(folder / "agent")),
        "data_dir": ("data_dir", str(folder / "bot")),
    }
    for old, (key, value) in lines.items():
        quoted = json.dumps(value, ensure_ascii=False).replace("\\", r"\\")
        text = re.sub(rf"^  {old}: .*$", f"  {key}: {quoted}", text, count=1, flags=re.MULTILINE)
    return text


def _node_in(file: Path) -> tuple[str, Path, Path]:
    """The node's name, state_dir and key file. Read by hand: the agent's own types are not ours to use."""
    agent: dict[str, Any] = yamllines.parse(file.read_text(encoding="utf-8")).value.get("agent") or {}
    try:
        state_dir = Path(agent["state_dir"])
        key = (agent.get("bus") or {}).get("credentials")
        return str(agent["node"]), state_dir, Path(key) if key else state_dir / "node.nkey"
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is there, without agent.node and agent.state_dir: choose another folder") from error


def _make_key(file: Path) -> Iterator[str]:
    if file.exists():
        read_seed(file)
        yield f"kept  {file}"
        return
    write_private(file, nkey.generate_seed() + "\n")
    yield f"made  {file} (secret)"


def _make_order_key(data_dir: Path) -> Iterator[str]:
    file = order_key_file(data_dir)
    if file.exists():
        public_order_key(data_dir)
        yield f"kept  {file}"
        return
    make_order_key(data_dir)
    yield f"made  {file} (secret)"


def _make_tls(config: bot_config.BotConfig) -> Iterator[str]:
    """An authority of our own, and the certificate of our own server."""
    embedded = config.bus.embedded_server()
    if embedded is None or config.bus.insecure:
        return
    files = tls_files(config.data_dir)
    before = {path for path in (files.ca, files.ca_key, files.server) if path.exists()}
    renewed = renew_certificate(config.data_dir, embedded.hosts(), clock.now())
    for path in (files.ca, files.ca_key, files.server):
        made = path not in before or (renewed and path == files.server)
        yield f"{'made' if made else 'kept'}  {path}{' (secret)' if made and path != files.ca else ''}"


def _tell_node(config: bot_config.BotConfig, state_dir: Path) -> Iterator[str]:
    """What a node of another machine gets in its token: the authority and the bot's public key."""
    contents = {nodefiles.order_key_file(state_dir): nodefiles.order_key_text(public_order_key(config.data_dir))}
    if not config.bus.insecure:
        if config.bus.embedded_server() is None and not config.ca_file().exists():
            yield f"still {config.ca_file()} is missing: put the certificate authority of your servers there"
        else:
            contents[nodefiles.ca_file(state_dir)] = config.ca_file().read_text(encoding="ascii")
    for path, text in contents.items():
        if path.exists() and path.read_text(encoding="ascii") == text:
            yield f"kept  {path}"
            continue
        write_private(path, text)
        yield f"made  {path}"


def _register(data_dir: Path, node: str, public_key: str) -> str:
    registered = read_nodes(data_dir).get(node)
    if registered == public_key:
        return f"kept  node {node}, registered"
    if registered is not None:
        raise ConfigError(f"node {node} is registered in {data_dir} with another key than the one it has: remove one")
    try:
        register_node(data_dir, node, public_key)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return f"made  node {node}, registered"
