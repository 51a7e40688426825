"""Mutations of a JSON message that know its structure: most stay readable, some do not. Same seed, same message."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

Json = Any
MOST_BYTES = 64 * 1024  # the bus takes no more
_Slot = tuple[Any, Any]  # a dict or list, and a key or index of it

NUMBERS: Sequence[Json] = [
    0, 1, -1, 2, 7, 63, 64, 65, 100, 101, 255, 1024, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1,
    2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 0.5, 1e-320, 1e9, 1e15, 1.0000001e15, 1e308, -1e308,
]  # fmt: skip
WORDS: Sequence[str] = [
    "", " ", "unknown", "from_a_newer_version", "candidate", "held", "a" * 64, "a" * 65, "x" * 200, "x" * 5000, "\0",
    "a\nb\r\n> c", "\u202egnp.exe", "<!channel>", "<@U0CAROL>", "&lt;!here&gt;", "<http://evil.example|here>", "`x`",
    "'; DROP TABLE incident; --", "../../etc/passwd", "%s%n{}{0}", "{node}", "🤖" * 50, "é" * 40, "gpu-01", "*", ">",
    "gpuoncall.obs.gpu-02", "ÿ", "null", "true", "-1", "NaN", "Infinity",
]  # fmt: skip
INSTANTS: Sequence[str] = [
    "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-11-30T03:05:00+14:00",
    "2026-11-30T03:05:00", "2026-02-30T00:00:00Z", "2200-12-31T23:59:59Z", "2201-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z", "2026-11-30T12:00:00.1234567Z", "2026-11-30",
]  # fmt: skip
OTHERS = [b"null", b"true", b"false", b"[]", b"{}", b"[[]]", b"[null]", b'{"":null}', b'{"a":{"b":[]}}']
RAW: Sequence[bytes] = [
    b"", b"null", b"[]", b"{}", b'""', b"0", b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"[" * 5000, b'{"a":' * 3000, b"NaN",
    b'{"version":1}', b'"\\ud800"', b"\x00" * 64,
]  # fmt: skip


def mutated(template: bytes, rng: random.Random) -> bytes:
    """One to four changes of the message; one in ten is damaged as bytes."""
    message = changed(msgspec.json.decode(template), rng)
    body = msgspec.json.encode(message)
    return broken(body, rng) if rng.random() < 0.1 else body[:MOST_BYTES]


def changed(message: Json, rng: random.Random) -> Json:
    """The message itself, with one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 4))):
        if message:
            _change(_slot(message, rng), rng)
    return message


def broken(body: bytes, rng: random.Random) -> bytes:
    """The bytes with one place cut out, doubled, exchanged; or something else altogether."""
    at, to = sorted((rng.randint(0, len(body)), rng.randint(0, len(body))))
    short = min(to, at + rng.randint(0, 20))
    return rng.choice(
        [
            lambda: body[:at],
            lambda: body[at:],
            lambda: body[:at] + body[short:],
            lambda: body[:at] + body[at:short] * 2 + body[short:],
            lambda: body[:at] + bytes([rng.randint(0, 255)]) + body[at + 1 :],
            lambda: body[:at] + rng.randbytes(rng.randint(1, 8)) + body[at:],
            lambda: body.replace(b":", b"::", 1),
            lambda: body.replace(b"0", b"\xd9\xa0"),
            lambda: body.replace(b'"', b"'"),
            lambda: body + body,
            lambda: body[:at] + b"[" * 3000 + body[at:],
            lambda: b" " * rng.randint(1, 100) + body,
            lambda: rng.choice(RAW),
        ]
    )()


def _slot(part: Json, rng: random.Random) -> _Slot:
    """A place of the message that holds something."""
    key = rng.choice(list(part)) if isinstance(part, dict) else rng.randrange(len(part))
    inner = part[key]
    return _slot(inner, rng) if isinstance(inner, dict | list) and inner and rng.random() < 0.85 else (part, key)


def _change(slot: _Slot, rng: random.Random) -> None:
    """Eight in ten keep the kind of the value, and so mostly the message."""
    part, key = slot
    value = part[key]
    if rng.random() < 0.8:
        part[key] = _like(value, rng)
        return
    rng.choice(_STRUCTURAL)(part, key, rng)


def _like(value: Json, rng: random.Random) -> Json:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        near = [value + 1, value * 2, abs(value - 1), value / 2 if isinstance(value, float) else value // 2]
        return rng.choice(NUMBERS) if rng.random() < 0.2 else rng.choice(near)
    if isinstance(value, str):
        if value[:2] == "20" and "T" in value:
            return rng.choice(INSTANTS)
        return rng.choice([rng.choice(WORDS), value + rng.choice("x0-"), value[:-1], value.upper(), value[::-1]])
    if isinstance(value, list):
        many = value * (40 if len(value) < 5 else 2)
        return rng.choice([[], value[:1], value[::-1], value * 2, many, rng.sample(value, len(value))])
    if isinstance(value, dict):
        kept = [key for key in value if rng.random() < 0.9]
        return {key: value[key] for key in kept} | {"newer_field": _other(rng)}
    return rng.choice([0, "", False])


def _other(rng: random.Random) -> Json:
    """Of another kind; a new one each time, since the next change may change it."""
    return msgspec.json.decode(rng.choice(OTHERS))


def _drop(part: Json, key: Json, rng: random.Random) -> None:
    del part[key]


def _replace(part: Json, key: Json, rng: random.Random) -> None:
    part[key] = rng.choice([_other(rng), _other(rng), rng.choice(NUMBERS), rng.choice(WORDS)])


def _add_unknown(part: Json, key: Json, rng: random.Random) -> None:
    """What a newer version may say."""
    if isinstance(part, dict):
        part[rng.choice(["newer_field", "", "Version", "gpus ", "x" * 300])] = rng.choice(
            [_other(rng), rng.choice(NUMBERS)]
        )
    else:
        part.append(part[key])


def _nest(part: Json, key: Json, rng: random.Random) -> None:
    part[key] = [part[key]]


def _deepen(part: Json, key: Json, rng: random.Random) -> None:
    deep: Json = part[key]
    for _ in range(rng.choice((3, 50))):
        deep = [deep]
    part[key] = deep


_STRUCTURAL: Sequence[Callable[[Json, Json, random.Random], None]] = [
    _drop, _replace, _add_unknown, _add_unknown, _add_unknown, _nest, _deepen,
]  # fmt: skip
