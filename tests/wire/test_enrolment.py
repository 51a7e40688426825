"""Join tokens and join messages: what was given out once is understood for ever."""

from pathlib import Path

from wire import nkey, subjects
from wire.enrolment import Token, decode_join, decode_token, encode_token, join_message

GOLDEN = Path(__file__).parent / "golden_join"
NODE = "gpu-01"
# Made for this file and known to nobody's bus.
JOIN_SEED = nkey._encode_seed(bytes(range(32)))
KEY = nkey.public_key(nkey._encode_seed(bytes(range(32, 64))))
TOKEN = Token(NODE, ["tls://bot-host:4222", "tls://10.0.0.5:4222"], bytes(range(200)), bytes(range(32)), JOIN_SEED)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes().rstrip(b"\n")


def test_a_token_of_every_version_is_read():
    assert decode_token(golden("join-token-1.txt").decode()) == TOKEN
    assert encode_token(TOKEN).encode() == golden("join-token-1.txt")


def test_a_join_message_of_every_version_is_read():
    join = decode_join(subjects.join(NODE), golden("join-1.json"))
    assert (join.node, join.key, join.join_key) == (NODE, KEY, nkey.public_key(JOIN_SEED))
    assert join_message(TOKEN, KEY) == golden("join-1.json")


def test_a_newer_field_in_a_token_or_a_message_is_ignored():
    newer = golden("join-1.json").replace(b'{"version"', b'{"later":[1],"version"')
    assert decode_join(subjects.join(NODE), newer).key == KEY
