"""A new key for the bot's orders, told to nodes by a message that the key before it signed."""

import hashlib

import msgspec
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

VERSION = 1
LONGEST_KEY_CHANGE = 512  # bytes
KEY_BYTES = 32
SIGNATURE_BYTES = 64
_DOMAIN = b"gpuoncall-key-v1\0"


class BadKeyChangeError(ValueError):
    """A message that changes no key; the text says why."""


class KeyChange(msgspec.Struct, frozen=True):
    """`old_key` and `new_key` are raw Ed25519 public keys; the old one signed both."""

    version: int
    old_key: bytes
    new_key: bytes
    signature: bytes


def key_change(old: SigningKey, new_key: bytes) -> bytes:
    """The message. It is no secret and has no end: whoever believes the old key may hear of the new one any time."""
    old_key = bytes(old.verify_key)
    return msgspec.json.encode(KeyChange(VERSION, old_key, new_key, old.sign(_signed(old_key, new_key)).signature))


def decode_key_change(body: bytes) -> KeyChange:
    """The message, if the old key that it names signed it. Raises BadKeyChangeError; whether that key counts is not
    asked here."""
    if len(body) > LONGEST_KEY_CHANGE:
        raise BadKeyChangeError("it is too large")
    try:
        change = msgspec.json.decode(body, type=KeyChange)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadKeyChangeError(f"it cannot be read: {error}") from error
    if change.version != VERSION:
        raise BadKeyChangeError(f"it has version {change.version}, and this node knows {VERSION}")
    if len(change.old_key) != KEY_BYTES or len(change.new_key) != KEY_BYTES or change.old_key == change.new_key:
        raise BadKeyChangeError("it does not hold two keys")
    if not is_signed_by(change.old_key, _signed(change.old_key, change.new_key), change.signature):
        raise BadKeyChangeError("its signature is wrong")
    return change


def is_signed_by(key: bytes, content: bytes, signature: bytes) -> bool:
    """Whether the owner of the raw public key signed exactly these bytes."""
    if len(key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        VerifyKey(key).verify(content, signature)
    except (BadSignatureError, ValueError):
        return False
    return True


def key_name(key: bytes) -> str:
    """A short name of a public key, for heartbeats and people."""
    return hashlib.sha256(key).hexdigest()[:16]


def _signed(old_key: bytes, new_key: bytes) -> bytes:
    return _DOMAIN + old_key + new_key
