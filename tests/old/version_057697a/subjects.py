"""The only place where a subject, a stream or a name on the bus is spelled."""

import re

STREAM = "OBS"
CONSUMER = "bot"
BOT = "bot"  # whose inbox is _INBOX_bot
OBSERVATIONS = "gpuoncall.obs.*"
HEARTBEATS = "gpuoncall.hb.*"
JOINS = "gpuoncall.join.*"
PROBE = "gpu-oncall-probe"  # the name with which the bot tries out what a node may do; no node may have it

_NODE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def is_node_name(text: str) -> bool:
    """Whether `text` may name a node: it becomes a token of a subject, so wildcards and dots are out."""
    return _NODE_NAME.fullmatch(text) is not None


def node_name_from_host(host: str) -> str:
    """A node name made from a host name; raises ValueError where nothing usable is left."""
    name = re.sub(r"[^a-z0-9-]+", "-", host.split(".")[0].lower()).strip("-")[:63]
    if not is_node_name(name):
        raise ValueError(f"host name {host!r} gives no usable node name: set agent.node in the config")
    return name


def observations(node: str) -> str:
    return f"gpuoncall.obs.{node}"


def heartbeat(node: str) -> str:
    return f"gpuoncall.hb.{node}"


def command(node: str) -> str:
    return f"gpuoncall.cmd.{node}"


def join(node: str) -> str:
    return f"gpuoncall.join.{node}"


def inbox(owner: str) -> str:
    """The inbox prefix of a node or of the bot; the server's permissions name it."""
    return f"_INBOX_{owner}"


def node_of(subject: str) -> str:
    """The node that a report's subject belongs to: its last token."""
    return subject.rsplit(".", 1)[-1]


def message_id(node: str, spool_epoch: str, seq: int) -> str:
    """The JetStream message id. The epoch is random and secret: an id that others can guess lets them swallow ours."""
    return f"{node}.{spool_epoch}.{seq}"
