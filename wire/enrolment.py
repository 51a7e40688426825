"""How a node joins: the token that the bot's host gives out, and the one message that it allows."""

import base64
import binascii

import msgspec

from wire import nkey, subjects

TOKEN_PREFIX = "gpuoncall-join-1."  # so that people and scanners know one when they see it
VERSION = 1
LONGEST_JOIN = 2048  # bytes
_DOMAIN = b"gpuoncall-join-v1\0"
_PUBLIC_KEY_BYTES = 32


class BadTokenError(ValueError):
    """No token of ours; the text never holds it."""


class BadJoinError(ValueError):
    """A message that joins nobody."""


class Token(msgspec.Struct, frozen=True):
    """All that a node must know. `ca` is a DER certificate, empty where servers are reached in clear on loopback.

    `bot_key` is the raw Ed25519 public key of the bot's orders; `join_seed` is secret, lives an hour and works once.
    """

    node: str
    servers: list[str]
    ca: bytes
    bot_key: bytes
    join_seed: str

    def __repr__(self) -> str:
        return f"Token(node={self.node!r}, <secret>)"


class Join(msgspec.Struct, frozen=True):
    """`key` is the node's new public key; `join_key` is the token's, and signed both names and keys."""

    version: int
    node: str
    key: str
    join_key: str
    signature: bytes


def encode_token(token: Token) -> str:
    return TOKEN_PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def decode_token(text: str) -> Token:
    """Raises BadTokenError."""
    body = "".join(text.split())  # a terminal may have wrapped it
    if not body.startswith(TOKEN_PREFIX):
        raise BadTokenError(f"this is no join token: it begins with {TOKEN_PREFIX}")
    body = body.removeprefix(TOKEN_PREFIX)
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=Token)
        nkey.public_key(token.join_seed)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise BadTokenError("the join token is damaged: copy the whole line") from error
    if not subjects.is_node_name(token.node) or not token.servers or len(token.bot_key) != _PUBLIC_KEY_BYTES:
        raise BadTokenError("the join token is damaged: copy the whole line")
    return token


def join_message(token: Token, public_key: str) -> bytes:
    join_key = nkey.public_key(token.join_seed)
    signature = nkey.sign(token.join_seed, _signed(token.node, public_key, join_key))
    return msgspec.json.encode(Join(VERSION, token.node, public_key, join_key, signature))


def decode_join(subject: str, body: bytes) -> Join:
    """The message, if its own join key signed it. Raises BadJoinError; whether that key counts is not asked here."""
    try:
        join = msgspec.json.decode(body, type=Join)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadJoinError(f"it cannot be read: {error}") from error
    if join.version != VERSION:
        raise BadJoinError(f"it has version {join.version}, and this bot knows {VERSION}")
    if join.node != subjects.node_of(subject):
        raise BadJoinError(f"it names node {join.node[:64]!r}, and came for {subjects.node_of(subject)}")
    if not nkey.is_public_key(join.key) or join.key == join.join_key:
        raise BadJoinError("it holds no public key of a node")
    if not nkey.is_signed_by(join.join_key, _signed(join.node, join.key, join.join_key), join.signature):
        raise BadJoinError("its signature is wrong")
    return join


def _signed(node: str, key: str, join_key: str) -> bytes:
    return _DOMAIN + "\0".join((node, key, join_key)).encode()
