"""The text of the embedded server's config file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.broker.stream import MAX_MESSAGE_BYTES
from wire import subjects

_MIB = 1024 * 1024
# Room beside the stream's own limit, for the consumer's state: the server refuses a stream as large as its store.
_SPARE_BYTES = 64 * _MIB

# Nodes live in an account without JetStream and reach CORE through services: a reply subject that a node chooses can
# then write into no other node's observations and into nothing of the bot's.
_SERVER = """\
server_name: gpu-oncall
listen: "{listen}"
http: "{monitor}"
pid_file: "{pid_file}"
logtime: false
max_payload: {max_payload}
max_subscriptions: 64
write_deadline: "10s"
ping_interval: "30s"
ping_max: 2
authorization {{ timeout: 15 }}
jetstream {{ store_dir: "{store}", max_memory_store: {memory}, max_file_store: {disk}, sync_interval: always }}
accounts {{
  CORE {{
    jetstream: {{ max_mem: {memory}, max_file: {disk}, max_streams: 8, max_consumers: 32 }}
    users: [
      {{ nkey: "{bot_key}", permissions: {{
          publish: {{ allow: ["$JS.API.>", "$JS.ACK.>", "{commands}"] }},
          subscribe: {{ allow: ["{bot_inbox}.>", "{heartbeats}", "$JS.EVENT.ADVISORY.>"] }} }} }}
    ]
    exports: [ {{ service: "{observations}", accounts: [NODES] }}, {{ service: "{heartbeats}", accounts: [NODES] }} ]
    imports: [ {{ service: {{ account: NODES, subject: "{commands}" }} }} ]
  }}
  NODES {{
    limits: {{ max_connections: 12000, max_subscriptions: 60000, max_payload: {max_payload} }}
    exports: [ {{ service: "{commands}", accounts: [CORE] }} ]
    imports: [
      {{ service: {{ account: CORE, subject: "{observations}" }} }}
      {{ service: {{ account: CORE, subject: "{heartbeats}" }} }}
    ]
    users: [
{nodes}
    ]
  }}
}}
"""
_NODE = """\
      {{ nkey: "{key}", permissions: {{
          publish: {{ allow: ["{observations}", "{heartbeat}"] }},
          subscribe: {{ allow: ["{command}", "{inbox}.>"] }},
          allow_responses: {{ max: 2, expires: "60s" }} }} }}"""


@dataclass(frozen=True)
class ServerSettings:
    """`nodes` is name to public key; `max_store_bytes` is what the stream may hold."""

    listen: str
    monitor: str
    store: Path
    pid_file: Path
    max_store_bytes: int
    bot_key: str
    nodes: Mapping[str, str]


def render(settings: ServerSettings) -> str:
    """The whole file. Paths may hold no quote or backslash: raises ValueError."""
    for path in (settings.store, settings.pid_file):
        if any(character in str(path) for character in '"\\\n'):
            raise ValueError(f"the path {path} holds a character that the server's config cannot: use another data_dir")
    return _SERVER.format(
        listen=settings.listen,
        monitor=settings.monitor,
        pid_file=settings.pid_file,
        store=settings.store,
        max_payload=MAX_MESSAGE_BYTES,
        memory=32 * _MIB,
        disk=settings.max_store_bytes + _SPARE_BYTES,
        bot_key=settings.bot_key,
        bot_inbox=subjects.inbox(subjects.BOT),
        observations=subjects.OBSERVATIONS,
        heartbeats=subjects.HEARTBEATS,
        commands=subjects.command("*"),
        nodes="\n".join(_node(name, key) for name, key in settings.nodes.items()),
    )


def _node(name: str, key: str) -> str:
    return _NODE.format(
        key=key,
        observations=subjects.observations(name),
        heartbeat=subjects.heartbeat(name),
        command=subjects.command(name),
        inbox=subjects.inbox(name),
    )
