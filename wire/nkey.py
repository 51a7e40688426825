"""NATS nkeys (Ed25519) without the source-only package `nkeys`: make, encode, decode, sign."""

import base64
import binascii
import hashlib
import os

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

_PREFIX_SEED = 18 << 3  # 'S'
_PREFIX_USER = 20 << 3  # 'U'


class BadKeyError(ValueError):
    """A key file's content that is no user seed. The text never holds the key."""


def generate_seed() -> str:
    """A new user seed, `SU…`: a secret."""
    return _encode_seed(os.urandom(32))


def derived_seed(seed: str, purpose: str) -> str:
    """Another seed that only who knows `seed` can make, always the same for one purpose; raises BadKeyError."""
    return _encode_seed(hashlib.sha256(purpose.encode() + bytes(_signing_key(seed))).digest())


def public_key(seed: str) -> str:
    """The public user key, `U…`, of a seed; raises BadKeyError."""
    return _encode(bytes([_PREFIX_USER]) + bytes(_signing_key(seed).verify_key))


def sign(seed: str, nonce: bytes) -> bytes:
    """The raw Ed25519 signature over a server's nonce; raises BadKeyError."""
    return _signing_key(seed).sign(nonce).signature


def _encode_seed(raw: bytes) -> str:
    # Two prefixes share the first two bytes: 5 bits "seed", 5 bits of the type.
    head = bytes([_PREFIX_SEED | (_PREFIX_USER >> 5), (_PREFIX_USER & 31) << 3])
    return _encode(head + raw)


def _encode(payload: bytes) -> str:
    checksum = binascii.crc_hqx(payload, 0).to_bytes(2, "little")
    return base64.b32encode(payload + checksum).decode().rstrip("=")


def _signing_key(seed: str) -> SigningKey:
    text = seed.strip()
    try:
        decoded = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError as error:
        raise BadKeyError("not an nkey seed: it is not base32") from error
    payload, checksum = decoded[:-2], decoded[-2:]
    if len(payload) != 34 or binascii.crc_hqx(payload, 0).to_bytes(2, "little") != checksum:
        raise BadKeyError("not an nkey seed: wrong length or checksum")
    if not text.startswith("SU"):
        raise BadKeyError("not a user seed: it must begin with SU")
    return SigningKey(payload[2:])


def is_public_key(text: str) -> bool:
    """Whether `text` is a whole public user key, `U…`: it goes into the server's config as it is."""
    return _public_bytes(text) is not None


def is_signed_by(public_key: str, content: bytes, signature: bytes) -> bool:
    """Whether the owner of the public user key signed exactly these bytes."""
    raw = _public_bytes(public_key)
    if raw is None or len(signature) != 64:
        return False
    try:
        VerifyKey(raw).verify(content, signature)
    except BadSignatureError:
        return False
    return True


def _public_bytes(text: str) -> bytes | None:
    try:
        decoded = base64.b32decode(text)
    except (binascii.Error, ValueError):
        return None
    payload, checksum = decoded[:-2], decoded[-2:]
    crc = binascii.crc_hqx(payload, 0).to_bytes(2, "little")
    is_whole = len(payload) == 33 and payload[0] == _PREFIX_USER and checksum == crc
    return payload[1:] if is_whole else None
