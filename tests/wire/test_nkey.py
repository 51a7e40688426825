"""nkeys made without the package `nkeys` are the same as its own."""

import base64

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from wire import nkey

# From the documentation of NATS ("nk -gen user -pubout" and friends): a seed and its public key.
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def test_a_known_seed_gives_its_known_public_key():
    assert nkey.public_key(SEED) == PUBLIC
    assert nkey.public_key(f"  {SEED}\n") == PUBLIC


def test_a_new_seed_signs_so_that_its_public_key_verifies():
    seed = nkey.generate_seed()
    public = nkey.public_key(seed)
    assert seed.startswith("SU")
    assert public.startswith("U")
    assert len(public) == 56
    verifier = VerifyKey(base64.b32decode(public)[1:33])
    verifier.verify(b"nonce", nkey.sign(seed, b"nonce"))
    with pytest.raises(BadSignatureError):
        verifier.verify(b"other", nkey.sign(seed, b"nonce"))


def test_no_two_seeds_are_the_same():
    assert len({nkey.generate_seed() for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "wrong length"),
        ("not base32!", "not base32"),
        (SEED.replace("KFSN", "KFSM"), "checksum"),
        (SEED[:-8], "wrong length"),
        (PUBLIC, "wrong length"),
        (SEED.lower(), "not base32"),
        ("Schlüssel", "not base32"),
    ],
)
def test_a_text_that_is_no_seed_is_refused_and_never_repeated(text, why):
    with pytest.raises(nkey.BadKeyError, match=why) as told:
        nkey.public_key(text)
    assert not text or text not in str(told.value)


@pytest.mark.parametrize(
    ("text", "is_key"), [(PUBLIC, True), (SEED, False), (PUBLIC[:-1], False), ("", False), (PUBLIC + "\n", False)]
)
def test_only_a_whole_public_key_counts_as_one(text, is_key):
    assert nkey.is_public_key(text) is is_key
