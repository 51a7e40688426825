"""A message that changes the orders' key counts only as it was signed, and names both keys."""

import msgspec
import pytest
from nacl.signing import SigningKey

from wire.keychange import LONGEST_KEY_CHANGE, BadKeyChangeError, KeyChange, decode_key_change, key_change, key_name

OLD, NEW, OTHER = SigningKey(b"o" * 32), SigningKey(b"n" * 32), SigningKey(b"x" * 32)


def public(key: SigningKey) -> bytes:
    return bytes(key.verify_key)


def forged(**changes: object) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(decode_key_change(key_change(OLD, public(NEW))), **changes))


def test_a_change_names_both_keys():
    change = decode_key_change(key_change(OLD, public(NEW)))
    assert (change.old_key, change.new_key) == (public(OLD), public(NEW))
    assert len({key_name(public(key)) for key in (OLD, NEW, OTHER)}) == 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (forged(new_key=public(OTHER)), "its signature is wrong"),
        (forged(old_key=public(OTHER)), "its signature is wrong"),
        (forged(signature=b""), "its signature is wrong"),
        (forged(signature=OTHER.sign(public(OLD) + public(NEW)).signature), "its signature is wrong"),
        (forged(signature=OLD.sign(public(OLD) + public(NEW)).signature), "its signature is wrong"),
        (forged(old_key=b""), "it does not hold two keys"),
        (forged(new_key=public(OLD)), "it does not hold two keys"),
        (forged(version=2), "it has version 2, and this node knows 1"),
        (b"{}", "it cannot be read"),
        (b"\xff", "it cannot be read"),
        (b"[" * LONGEST_KEY_CHANGE, "it cannot be read"),
        (b" " * (LONGEST_KEY_CHANGE + 1), "it is too large"),
    ],
)
def test_what_no_key_signed_in_this_form_changes_nothing(body, why):
    with pytest.raises(BadKeyChangeError, match=why):
        decode_key_change(body)


def test_the_message_is_small_and_of_version_1():
    body = key_change(OLD, public(NEW))
    assert len(body) < LONGEST_KEY_CHANGE
    assert msgspec.json.decode(body, type=KeyChange).version == 1
