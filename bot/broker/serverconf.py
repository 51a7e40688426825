"""The text of a nats-server's config file: ours, or one of an external cluster's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bot.broker import rights
from bot.broker.stream import MAX_MESSAGE_BYTES
from wire import subjects

_MIB = 1024 * 1024
# Room beside the stream's own limit, for the consumer's state: the server refuses a stream as large as its store.
_SPARE_BYTES = 64 * _MIB
_MOST_CONNECTIONS = 12_000

# Nodes live in an account without JetStream and reach CORE through services: a reply subject that a node chooses can
# then write into no other node's observations and into nothing of the bot's.
_SERVER = """\
server_name: "{name}"
listen: "{listen}"
http: "{monitor}"
{pid_file}logtime: false
max_payload: {max_payload}
max_subscriptions: 64
write_deadline: "10s"
ping_interval: "30s"
ping_max: 2
authorization {{ timeout: 15 }}
{tls}{cluster}jetstream {{
  store_dir: "{store}", max_memory_store: {memory}, max_file_store: {disk}, sync_interval: always
}}
accounts {{
  CORE {{
    jetstream: {{ max_mem: {memory}, max_file: {account_disk}, max_streams: 8, max_consumers: 32 }}
    users: [
      {{ nkey: "{bot_key}", permissions: {bot} }}
    ]
    exports: [
      {{ service: "{observations}", accounts: [NODES] }}
      {{ service: "{heartbeats}", accounts: [NODES] }}
      {{ service: "{joins}", accounts: [NODES] }}
    ]
    imports: [
      {{ service: {{ account: NODES, subject: "{commands}" }} }}
      {{ service: {{ account: NODES, subject: "{keys}" }} }}
    ]
  }}
  NODES {{
    limits: {{ max_connections: {connections}, max_subscriptions: 60000, max_payload: {max_payload} }}
    exports: [
      {{ service: "{commands}", accounts: [CORE] }}
      {{ service: "{keys}", accounts: [CORE] }}
    ]
    imports: [
      {{ service: {{ account: CORE, subject: "{observations}" }} }}
      {{ service: {{ account: CORE, subject: "{heartbeats}" }} }}
      {{ service: {{ account: CORE, subject: "{joins}" }} }}
    ]
    users: [
{users}
    ]
  }}
}}
"""
# The server must speak first in TLS, or a man in the middle could greet in clear and be believed.
_TLS = """\
tls {{ cert_file: "{certificate}", key_file: "{key}", handshake_first: true, min_version: "1.3", timeout: 15 }}
"""
_CLUSTER = """\
cluster {{
  name: "gpu-oncall", listen: "{listen}", pool_size: 3
  routes: [ {routes} ]
  tls {{
    cert_file: "{certificate}", key_file: "{key}", ca_file: "{ca}", verify: true, min_version: "1.3", timeout: 15
  }}
}}
"""


@dataclass(frozen=True)
class ServerTls:
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Cluster:
    """`routes` are host:port of all servers' cluster ports; `ca` signed their certificates."""

    listen: str
    routes: tuple[str, ...]
    ca: Path


@dataclass(frozen=True)
class ServerSettings:
    """`nodes` and `joins` are name to public key; `max_store_bytes` is what the stream may hold on one server.

    `tls` None means in clear, for loopback only. A cluster has `replicas` copies of the stream.
    """

    listen: str
    monitor: str
    store: Path
    pid_file: Path | None
    max_store_bytes: int
    bot_key: str
    nodes: Mapping[str, str]
    joins: Mapping[str, str] = field(default_factory=dict)
    tls: ServerTls | None = None
    name: str = "gpu-oncall"
    cluster: Cluster | None = None
    replicas: int = 1


def render(settings: ServerSettings) -> str:
    """The whole file. Paths and names may hold no quote or backslash: raises ValueError."""
    _require_plain(settings)
    disk = settings.max_store_bytes + _SPARE_BYTES
    return _SERVER.format(
        name=settings.name,
        listen=settings.listen,
        monitor=settings.monitor,
        pid_file=f'pid_file: "{settings.pid_file}"\n' if settings.pid_file else "",
        tls=_TLS.format(certificate=settings.tls.certificate, key=settings.tls.key) if settings.tls else "",
        cluster=_cluster(settings),
        store=settings.store,
        max_payload=MAX_MESSAGE_BYTES,
        connections=_MOST_CONNECTIONS,
        memory=32 * _MIB,
        disk=disk,
        account_disk=disk * settings.replicas,  # an account's limit counts every copy
        bot_key=settings.bot_key,
        bot=rights.permissions(rights.of_bot()),
        observations=subjects.OBSERVATIONS,
        heartbeats=subjects.HEARTBEATS,
        joins=subjects.JOINS,
        commands=subjects.command("*"),
        keys=subjects.key_change("*"),
        users="\n".join(_users(settings)),
    )


def _users(settings: ServerSettings) -> list[str]:
    nodes = [(key, rights.of_node(name)) for name, key in settings.nodes.items()]
    joins = [(key, rights.of_join_key(name)) for name, key in settings.joins.items()]
    return [f'      {{ nkey: "{key}", permissions: {rights.permissions(may)} }}' for key, may in (*nodes, *joins)]


def _cluster(settings: ServerSettings) -> str:
    cluster, tls = settings.cluster, settings.tls
    if cluster is None:
        return ""
    if tls is None:
        raise ValueError("a cluster needs certificates: its servers talk over the network")
    routes = ", ".join(f'"tls://{route}"' for route in cluster.routes)
    return _CLUSTER.format(
        listen=cluster.listen, routes=routes, certificate=tls.certificate, key=tls.key, ca=cluster.ca
    )


def _require_plain(settings: ServerSettings) -> None:
    texts = [settings.name, settings.listen, settings.monitor, settings.store, settings.pid_file]
    if settings.tls:
        texts += [settings.tls.certificate, settings.tls.key]
    if settings.cluster:
        texts += [settings.cluster.listen, settings.cluster.ca, *settings.cluster.routes]
    for text in texts:
        if any(character in str(text) for character in '"\\\n'):
            raise ValueError(f"the path {text} holds a character that the server's config cannot: use another data_dir")
